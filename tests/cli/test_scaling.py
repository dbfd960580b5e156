from tests.support.shell import Shell


def test_scaling_policies_from_the_shell(shell: Shell) -> None:
    assert "no scaling policy yet" in shell.run("scaling", "list").stdout
    shell.json("queues", "create", "mail")
    made = shell.json("scaling", "put", "mail", "--max", "4", "--set", "drain_seconds=30")
    [policy] = made["policies"]
    assert (policy["max_workers"], policy["drain_seconds"], policy["provider"]) == (4, 30.0, "none")
    assert "is changed" in shell.run("scaling", "edit", "mail", "--min", "1").stdout
    assert shell.json("scaling", "pause", "mail")["policies"][0]["is_paused"]
    assert "paused" in shell.run("scaling", "list").stdout
    assert not shell.json("scaling", "resume", "mail")["policies"][0]["is_paused"]
    [advice] = shell.json("scaling", "advise", "mail")["advice"]
    assert (advice["action"], advice["count"]) == ("scale_up", 1)
    assert "fewer than min_workers" in shell.run("scaling", "advise", "mail").stdout
    assert "min_workers" in shell.run("scaling", "show", "mail").stdout
    assert "nothing was scaled yet" in shell.run("scaling", "history").stdout
    assert shell.json("scaling", "series", "mail") == {"series": []}
    told = shell.run("scaling", "series", "mail", "--picture", "mail.svg").stdout
    assert "nothing is known of the last hour; nothing was drawn" in told
    nothing = shell.run("simulate", "record", "mail", status=2)
    assert "no job came in and ended" in nothing.stderr
    wrong = shell.run("scaling", "put", "mail", "--max", "1", "--set", "min_workers=2", status=2)
    assert "use at most as many" in wrong.stderr
    unknown = shell.run("scaling", "edit", "mail", "--provider", "pods-of-mine", status=2)
    assert "use one of none" in unknown.stderr
    assert "no scaling policy" in shell.run("scaling", "delete", "mail").stdout
