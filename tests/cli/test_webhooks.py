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


def test_what_is_wrong_with_webhooks_is_told_with_what_to_do(shell: Shell) -> None:
    url = "https://hooks.example.com/x"
    shell.json("webhooks", "create", "hook", url, "--kind", "alert")
    again = shell.run("webhooks", "create", "hook", url, "--kind", "alert", status=2)
    assert "look at how it stands now (`taskforge webhooks list`)" in again.stderr
    missing = shell.run("webhooks", "ping", "hok", status=2)
    assert "use 'hook', or see `taskforge webhooks list`" in missing.stderr
    long = shell.run("webhooks", "rotate", "hook", "--overlap", "100d", status=2)
    assert "use a number from 0 to 2,592,000" in long.stderr
    shell.run("webhooks", "ping", "hook")
    failed = shell.run("webhooks", "deliveries", "hook", "--status", "failed").stdout
    assert "no delivery is failed" in failed


def test_the_address_of_a_webhook_is_edited_apart_from_that_of_the_store(shell: Shell) -> None:
    shell.json("webhooks", "create", "hook", "https://a.example.com/x", "--kind", "alert")
    to = "https://b.example.com/x"
    shell.run("webhooks", "edit", "hook", "--address", to)
    assert "b.example.com" in shell.run("webhooks", "list").stdout
    elsewhere = "sqlite:///elsewhere.db"
    refused = shell.run("webhooks", "edit", "hook", "--kind", "job", "--url", elsewhere, status=2)
    assert "there is no store" in refused.stderr
    assert shell.json("webhooks", "list")["webhooks"][0]["kinds"] == ["alert"]
