from tests.support.shell import Shell


def test_schedules_from_the_shell(shell: Shell) -> None:
    made = shell.json(
        "schedules", "create", "nightly", "report", "--cron", "0 3 * * *", "--tz", "Asia/Jakarta",
        "--payload", '{"to": "ada"}', "--set", "overlap=skip",
    )["schedule"]  # fmt: skip
    assert (made["timing"]["zone"], made["job"]["queue"]) == ("Asia/Jakarta", "default")
    assert "nightly" in shell.run("schedules", "list").stdout
    assert "paused" in shell.run("schedules", "pause", "nightly").stdout
    run = shell.json("schedules", "run", "nightly")
    assert shell.json("jobs", "show", run["job"])["job"]["job_type"] == "report"
    assert shell.json("schedules", "slots", "nightly")["slots"][0]["manual"] is True
    assert "goes on" in shell.run("schedules", "resume", "nightly").stdout
    edited = shell.json("schedules", "edit", "nightly", "--every", "15m")["schedules"][0]
    assert edited["timing"]["every_seconds"] == 900.0
    assert len(shell.json("schedules", "preview", "--cron", "@daily", "--count", "3")["next"]) == 3
    assert "every 900 s" in shell.run("schedules", "show", "nightly").stdout
    assert "deleted" in shell.run("schedules", "delete", "nightly").stdout
    assert shell.json("schedules", "list") == {"schedules": []}


def test_a_wrong_expression_is_one_line(shell: Shell) -> None:
    refused = shell.run("schedules", "create", "x", "report", "--cron", "0 0 31 2 *", status=2)
    assert "cron" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_empty_cluster_says_so(shell: Shell) -> None:
    assert "no node" in shell.run("cluster").stdout
    assert shell.json("cluster")["nodes"] == []


def test_the_doctor_says_what_to_do(shell: Shell) -> None:
    found = shell.json("doctor", status=1)  # nobody leads
    assert found["worst"] == "fault"
    [leader] = [one for one in found["findings"] if one["subject"] == "leader"]
    assert "taskforge server" in leader["next_step"]
    assert "leader" in shell.run("doctor", status=1).stdout
