from tests.support.shell import Shell


def test_alert_rules_from_the_shell(shell: Shell) -> None:
    made = shell.json("alerts", "create", "deep", "queue_size", "--threshold", "5")["alerts"][0]
    assert (made["kind"], made["threshold"], made["is_firing"]) == ("queue_size", 5.0, False)
    assert "not looked at yet" in shell.run("alerts", "list").stdout
    edited = shell.json("alerts", "edit", "deep", "--repeat", "2h", "--rename", "deeper")
    assert (edited["alerts"][0]["repeat_seconds"], edited["alerts"][0]["name"]) == (
        7200.0,
        "deeper",
    )
    silenced = shell.json("alerts", "silence", "deeper", "--for", "30m")["alerts"][0]
    assert silenced["silenced_until"] is not None
    assert "is paused" in shell.run("alerts", "pause", "deeper").stdout
    assert "goes on" in shell.run("alerts", "resume", "deeper").stdout
    assert shell.json("alerts", "history") == {"history": []}
    assert "failure_rate" in shell.run("alerts", "kinds").stdout
    assert "is deleted" in shell.run("alerts", "delete", "deeper").stdout
    assert shell.json("alerts", "list") == {"alerts": []}
    refused = shell.run("alerts", "edit", "deeper", "--threshold", "3", status=2)
    assert "Traceback" not in refused.stderr
