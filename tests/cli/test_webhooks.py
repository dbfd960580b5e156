from tests.support.shell import Shell


def test_webhooks_from_the_shell(shell: Shell) -> None:
    url = "https://hooks.example.com/secret-path"
    made = shell.json("webhooks", "create", "hook", url, "--kind", "job.failed", "--kind", "alert")
    assert made["secret"].startswith("whsec_")
    assert made["webhook"]["kinds"] == ["alert", "job.failed"]
    told = shell.run("webhooks", "list").stdout
    assert "hooks.example.com" in told
    assert "secret-path" not in told
    edited = shell.json("webhooks", "edit", "hook", "--kind", "report", "--report-every", "2m")
    assert edited["webhooks"][0]["report_seconds"] == 120.0
    secret = shell.json("webhooks", "rotate", "hook", "--overlap", "1h")["secret"]
    assert secret != made["secret"]
    ping = shell.json("webhooks", "ping", "hook")["delivery_id"]
    [delivery] = shell.json("webhooks", "deliveries", "hook")["deliveries"]
    assert (delivery["id"], delivery["status"]) == (ping, "pending")
    assert "pending" in shell.run("webhooks", "deliveries", "hook").stdout
    assert "is sent again" in shell.run("webhooks", "retry", "hook", ping).stdout
    assert "is off" in shell.run("webhooks", "off", "hook").stdout
    assert "is on" in shell.run("webhooks", "on", "hook").stdout
    assert "is deleted" in shell.run("webhooks", "delete", "hook").stdout
    assert shell.json("webhooks", "list") == {"webhooks": []}
    refused = shell.run("webhooks", "create", "x", "https://10.0.0.1/", "--kind", "job", status=2)
    assert "Traceback" not in refused.stderr
