from tests.support.shell import Shell


def test_circuits_from_the_shell(shell: Shell) -> None:
    assert "no circuit yet" in shell.run("circuits", "list").stdout
    shell.json("queues", "create", "mail", "--set", 'circuit_breaker={"least_calls": 5}')
    opened = shell.json("circuits", "open", "--queue", "mail", "--type", "send")["circuit"]
    assert (opened["mode"], opened["is_forced"], opened["queue"]) == ("open", True, "mail")
    assert opened["circuit_breaker"]["least_calls"] == 5
    job = shell.json("enqueue", "send", "--queue", "mail")["id"]
    assert "was opened by hand" in shell.run("jobs", "explain", job).stdout
    assert "open by hand" in shell.run("circuits", "list", "--mode", "open").stdout
    assert "closed" in shell.run("circuits", "close", "--queue", "mail", "--type", "send").stdout
    assert shell.json("circuits", "configure", "stripe", "--set", "probes=2")["circuit"]
    told = " ".join(
        shell.run("circuits", "configure", "stripe", "--set", "probes=9").stdout.split()
    )
    assert "stripe has failure_share=0.5, least_calls=10, window_seconds=60" in told
    assert [one["dependency"] for one in shell.json("circuits", "list")["circuits"]] == [
        None,
        "stripe",
    ]
    assert "forgotten" in shell.run("circuits", "forget", "stripe").stdout
    refused = shell.run("circuits", "open", "--dependency", "stripe", status=2)
    assert "stripe" in refused.stderr
    wrong = shell.run("circuits", "configure", "stripe", "--set", "probe=2", status=2)
    assert "probes" in wrong.stderr
