import json
import re

import pytest

from tests.support.shell import Shell


def test_jobs_list_has_a_line_for_each_job_and_its_status(full: Shell) -> None:
    text = full.run("jobs", "list").stdout
    for word in (
        "good",
        "succeeded",
        "bad",
        "failed",
        "flaky",
        "scheduled",
        "busy",
        "processing",
        "letter",
        "pending",
    ):
        assert word in text
    assert "ValueError: no such [user]" in text  # what looks like markup is shown as it is
    assert re.search(r"due in (60|5\d) m", text)


@pytest.mark.parametrize("columns", [80, 100, 132])
@pytest.mark.parametrize("words", ["jobs list", "queues stats", "keys list"])
def test_tables_fit_their_terminal(full: Shell, columns: int, words: str) -> None:
    with full.on_terminal(*words.split(), columns=columns) as terminal:
        assert terminal.ended() == 0
    assert max(len(line) for line in terminal.text.splitlines()) <= columns
    if words == "jobs list":
        ids = [job["id"] for job in full.json("jobs", "list")["jobs"]]
        assert [line.split()[0] for line in terminal.text.splitlines() if line[:1] == "0"] == ids
        assert "processing" in terminal.text


def test_jobs_list_narrows_and_pages(full: Shell) -> None:
    first = full.json("jobs", "list", "--queue", "emails", "--limit", "2")
    second = full.json(
        "jobs", "list", "--queue", "emails", "--limit", "2", "--cursor", first["next"]
    )
    assert [job["queue"] for job in first["jobs"] + second["jobs"]] == ["emails"] * 4
    assert len({job["id"] for job in first["jobs"] + second["jobs"]}) == 4
    found = full.json(
        "jobs", "list", "--status", "failed,succeeded", "--tag", "nightly", "--since", "1h"
    )
    assert {job["job_type"] for job in found["jobs"]} == {"good", "bad"}
    assert found["next"] is None
    assert (
        full.json("jobs", "list", "--type", "letter", "--status", "pending")["jobs"][0]["priority"]
        == 7
    )
    assert "no job matches" in full.run("jobs", "list", "--type", "nothing").stdout


def test_jobs_show_tells_facts_executions_logs_and_the_error(full: Shell) -> None:
    bad = full.json("jobs", "list", "--type", "bad")["jobs"][0]["id"]
    text = full.run("jobs", "show", bad).stdout
    for word in (
        "failed",
        "1 of 3",
        '{"n":1}',
        "anna",
        "looking for the user",
        "attempt 1 failed",
        "Traceback",
        "app.py",
    ):
        assert word in text
    shown = full.json("jobs", "show", bad)
    assert shown["job"]["error"]["type"] == "ValueError"
    assert shown["executions"][0]["status"] == "failed"
    assert [line["message"].partition(" after")[0] for line in shown["logs"]] == [
        "looking for the user",
        "attempt 1 failed",
    ]
    assert [line["ended"] for line in shown["logs"]] == [None, "failed"]


def test_jobs_show_has_the_last_error_of_a_job_that_is_to_run_again(full: Shell) -> None:
    flaky = full.json("jobs", "list", "--type", "flaky")["jobs"][0]["id"]
    text = full.run("jobs", "show", flaky).stdout
    assert "a retry is scheduled" in text
    assert "Traceback" in text


def test_jobs_explain_says_why_and_what_to_do(own: Shell) -> None:
    letter, flaky, busy, good = (
        own.json("jobs", "list", "--type", name)["jobs"][0]["id"]
        for name in ("letter", "flaky", "busy", "good")
    )
    own.run("queues", "pause", "emails")
    text = own.run("jobs", "explain", letter).stdout
    for word in (
        "queue 'emails' is paused",
        "→ taskforge queues resume emails",
        "2 jobs of its queue go first",
        "anna",
        "would take it",
    ):
        assert word in text
    assert "queue 'emails' is paused" in own.run("jobs", "show", letter).stdout
    found = own.json("jobs", "explain", letter)
    assert [reason["code"] for reason in found["reasons"]] == ["paused", "behind"]
    assert (found["ahead"], found["workers"][0]["hindrance"]) == (2, None)
    assert "attempt 2 of 3 is due in" in own.run("jobs", "explain", flaky).stdout
    assert "attempt 1 of 3 is under way" in own.run("jobs", "explain", busy).stdout
    assert "it has ended: succeeded" in own.run("jobs", "explain", good).stdout
    assert "does not exist" in own.error("jobs", "explain", "01a1e2be-3d77-74b2-b190-1dcf91000000")


def test_jobs_tail_begins_with_recent_jobs(full: Shell) -> None:
    text = full.run("jobs", "tail", "--seconds", "0.1", "--lines", "2").stdout
    assert text.count("letter emails pending") == 2
    lines = full.run(
        "jobs", "tail", "--seconds", "0.1", "--lines", "9", "--status", "failed", "--json"
    ).stdout.splitlines()
    assert [json.loads(line)["job_type"] for line in lines] == ["bad"]


def test_queues_list_tells_what_differs_from_the_defaults(full: Shell) -> None:
    text = full.run("queues", "list").stdout
    assert "max_concurrent_jobs=9, dead_letter_queue=dead" in text
    queues = {queue["name"]: queue for queue in full.json("queues", "list")["queues"]}
    assert set(queues) == {"default", "dead", "emails"}
    assert queues["emails"]["settings"]["max_concurrent_jobs"] == 9
    assert queues["emails"]["is_active"] is True


def test_queues_stats_counts_by_status(full: Shell) -> None:
    stats = full.json("queues", "stats")
    assert stats["total"] == {
        "pending": 3,
        "scheduled": 2,
        "processing": 1,
        "succeeded": 1,
        "failed": 1,
        "cancelled": 0,
        "total": 8,
    }
    one = full.json("queues", "stats", "emails")["queues"]
    assert [(queue["queue"], queue["pending"]) for queue in one] == [("emails", 3)]
    text = full.run("queues", "stats").stdout
    assert "oldest pending" in text
    assert "total" in text


def test_stats_and_top_tell_how_executions_went(full: Shell) -> None:
    told = full.json("stats", "--last", "1h", "--step", "5m")
    assert {"since", "until", "totals", "series", "each"} <= set(told)
    assert len(told["series"]) >= 12
    assert "total" in full.run("stats", "--by", "worker").stdout
    seen = full.json("top")
    assert seen["active"] == 1
    assert seen["queue_size"] >= 1
    assert "queue size" in full.run("top", "--once").stdout


def test_queues_forecast_tells_what_it_knows(full: Shell) -> None:
    queue = next(one for one in full.json("queues", "stats")["queues"] if one["pending"])
    told = full.json("queues", "forecast", queue["queue"])
    assert (told["queue"], told["pending"]) == (queue["queue"], queue["pending"])
    assert told["outlook"] in full.run("queues", "forecast", queue["queue"]).stdout
