import json
import signal
import sys
from pathlib import Path

import pytest

from taskforge.cli import main
from taskforge.domain.claim import Claim
from taskforge.domain.job import ErrorInfo, new_job
from taskforge.domain.outcome import Finish, ToDeadLetter
from taskforge.domain.queue import CreateQueue
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import Engine
from tests.cli.conftest import make_store
from tests.support.shell import Shell, until


def test_enqueue_takes_all_its_options(shell: Shell) -> None:
    assert "enqueued" in shell.run("enqueue", "letter", "--payload", '{"to": "a"}').stdout
    made = shell.json(
        "enqueue",
        "letter",
        "--priority",
        "7",
        "--delay",
        "2h",
        "--unique",
        "one",
        "--tag",
        "a",
        "--tag",
        "b",
    )
    again = shell.json("enqueue", "letter", "--unique", "one")
    assert again == {"id": made["id"], "existed": True}
    job = shell.json("jobs", "show", made["id"])["job"]
    assert (job["status"], job["priority"], job["tags"], job["unique_key"]) == (
        "scheduled",
        7,
        ["a", "b"],
        "one",
    )
    piped = shell.run(
        "enqueue",
        "letter",
        "--payload",
        "-",
        "--at",
        "2020-01-01T00:00",
        text='{"to": "b"}',
        status=0,
    )
    assert "enqueued" in piped.stdout


def test_jobs_are_counted_and_a_dry_run_changes_none(shell: Shell) -> None:
    for tag in ("a", "b", "c"):
        shell.run("enqueue", "letter", "--tag", tag)
    assert shell.json("jobs", "count", "--tag", "a", "--tag", "b") == {"count": 2, "more": False}
    assert shell.run("jobs", "count", "--type", "letter").stdout.strip() == "3"
    would = shell.json("jobs", "cancel", "--all", "--dry-run")
    assert would == {"dry_run": True, "changed": 3, "refused": 0, "more": False}
    said = shell.run("jobs", "cancel", "--tag", "a", "--dry-run").stdout
    assert said.strip() == "1 would be changed; nothing was"
    assert shell.json("jobs", "count", "--status", "pending")["count"] == 3


def test_enqueue_waits_no_longer_than_asked(shell: Shell) -> None:
    said = shell.run("enqueue", "letter", "--wait", "--timeout", "200ms", status=2)
    assert said.stdout.startswith("enqueued ")
    assert "has not ended after 0.2 s" in said.stderr
    assert "taskforge jobs show" in said.stderr


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_interrupted_wait_has_told_the_id(shell: Shell, words: tuple[str, ...]) -> None:
    with shell.started("enqueue", "letter", "--wait", *words) as process:
        process.until("enqueued ")
        process.signal(signal.SIGINT)
        assert process.ended() == 130
    assert shell.json("jobs", "list")["jobs"][0]["id"] in process.text


def test_queues_are_created_paused_and_resumed(shell: Shell) -> None:
    assert "created letters" in shell.run("queues", "create", "letters").stdout
    words = (
        "queues",
        "create",
        "bills",
        "--priority",
        "3",
        "--dead-letter-queue",
        "letters",
        "--set",
        "rate_limit=60",
    )
    made = shell.json(*words)["queue"]
    assert (made["priority"], made["settings"]["rate_limit"]) == (3, 60)
    assert made["settings"]["dead_letter_queue_id"] is not None
    assert "letters is paused" in shell.run("queues", "pause", "letters", made["id"]).stdout
    assert "queues resume letters" in shell.error("enqueue", "letter", "--queue", "letters")
    assert [
        queue["is_active"] for queue in shell.json("queues", "resume", "letters", "bills")["queues"]
    ] == [True, True]


def test_jobs_are_cancelled_and_retried_by_id(own: Shell) -> None:
    jobs = {job["job_type"]: job["id"] for job in own.json("jobs", "list")["jobs"]}
    assert "cancelled" in own.run("jobs", "cancel", jobs["letter"]).stdout
    assert "asked to stop" in own.run("jobs", "cancel", jobs["busy"]).stdout
    answers = own.json("jobs", "retry", jobs["letter"], jobs["bad"], jobs["good"], status=2)
    assert (answers["changed"], answers["refused"]) == (2, 1)
    assert "only failed and cancelled jobs can" in answers["jobs"][2]["error"]
    refused = own.run("jobs", "cancel", jobs["good"], status=2)
    assert "only unfinished jobs can" in refused.stderr


def test_jobs_are_cancelled_and_retried_by_filter(own: Shell) -> None:
    assert "pass --yes" in own.error("jobs", "cancel", "--queue", "emails")
    assert "4 changed" in own.run("jobs", "cancel", "--queue", "emails", "--yes").stdout
    # Without a status, retrying means what failed: what was cancelled was cancelled on purpose.
    assert own.json("jobs", "retry", "--all", "--yes") == {"changed": 1, "refused": 0, "jobs": []}
    assert (
        own.json("jobs", "retry", "--status", "cancelled", "--type", "letter", "--yes")["changed"]
        == 3
    )


@pytest.mark.parametrize(
    "flag", ["--status=", "--status=,", "--status= , ", "--type=", "--tag=", "--queue=", "--since="]
)
@pytest.mark.parametrize(
    "command", ["cancel --yes", "cancel --all --yes", "retry --yes", "list", "tail"]
)
def test_an_empty_filter_is_an_error_and_not_every_job(
    full: Shell,
    flag: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TASKFORGE_URL", full.environment["TASKFORGE_URL"])
    monkeypatch.setattr(sys, "argv", ["taskforge", "jobs", *command.split(), flag])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, told = capsys.readouterr()
    name = flag.partition("=")[0]
    assert out == ""
    assert f"error {name}: is empty" in told
    assert f"such as {name} " in told


def test_an_empty_filter_changes_nothing(own: Shell) -> None:
    before = own.json("jobs", "list")
    assert "--status: is empty" in own.error("jobs", "cancel", "--status=", "--yes")
    assert own.json("jobs", "list") == before


@pytest.mark.parametrize("keys", [b"\x03", b"\x04"])
def test_a_question_is_left_with_one_key(own: Shell, keys: bytes) -> None:
    before = own.json("jobs", "list")
    with own.on_terminal("jobs", "cancel", "--all") as terminal:
        terminal.until("Cancel 6 jobs?")
        terminal.type(keys)
        assert terminal.ended() == 130
    assert "nothing was changed" in terminal.text
    assert "Traceback" not in terminal.text
    assert own.json("jobs", "list") == before


def test_help_of_retry_says_that_all_means_what_failed(shell: Shell) -> None:
    told = " ".join(shell.run("jobs", "retry", "--help").stdout.split())
    assert "cancelled ones when their id or --status cancelled is given" in told
    assert "Every failed job, when no filter is given." in told


def test_a_worker_is_listed_drained_and_taken_back(own: Shell) -> None:
    text = own.run("workers", "list").stdout
    for word in ("anna", "online", "1/4", "12 %", "64 MB"):
        assert word in text
    assert "takes nothing new; 1 job still runs" in own.run("workers", "drain", "anna").stdout
    assert own.json("workers", "list")["workers"][0]["status"] == "draining"
    assert own.json("workers", "drain", "anna", "--off")["worker"]["drain_mode"] is False


def test_healthy_workers_are_listed_by_ones_own_bound(tmp_path: Path) -> None:
    async def fill(engine: Engine) -> None:
        for name, sample in (
            ("well", Sample()),
            ("unwell", Sample(healthy=False)),
            ("stuck", Sample(stuck_slots=1)),
            ("unheard", None),
        ):
            made = await engine.register(FIRST_PROJECT, NewWorker(name=name), 600)
            if sample is not None:
                await engine.renew(made.incarnation, 600, sample)

    shell = make_store(tmp_path, fill)

    def names(*words: str) -> list[str]:
        return [one["name"] for one in shell.json("workers", "list", *words)["workers"]]

    assert names("--healthy") == names("--healthy-within", "10m") == ["well"]
    assert names() == ["stuck", "unwell", "well"]
    assert names("--healthy-within", "0") == []
    assert "no worker is healthy" in shell.run("workers", "list", "--healthy-within", "0s").stdout
    assert "--healthy-within: is 'soon'" in shell.error(
        "workers", "list", "--healthy-within", "soon"
    )
    assert "--all: is given with --healthy" in shell.error("workers", "list", "--all", "--healthy")


def test_tail_follows_what_happens(own: Shell) -> None:
    with own.started(
        "jobs", "tail", "--lines", "1", "--queue", "emails", "--json", "--seconds", "20"
    ) as tail:
        tail.until("letter")
        own.run("jobs", "cancel", "--queue", "emails", "--type", "later", "--yes")
        until(lambda: tail.text.count("\n") == 2, lambda: tail.text)
        change = json.loads(tail.text.splitlines()[-1])
    assert (change["job_type"], change["before"], change["status"]) == (
        "later",
        "scheduled",
        "cancelled",
    )


def test_dead_letters_are_shown_with_their_error_and_redriven(tmp_path: Path) -> None:
    async def fill(engine: Engine) -> None:
        dead = await engine.change_queue(FIRST_PROJECT, CreateQueue(name="dead"))
        await engine.insert(
            FIRST_PROJECT, [new_job("default", "frail"), new_job("default", "other")]
        )
        worker = await engine.register(FIRST_PROJECT, NewWorker(name="anna"), 600)
        [claimed] = await engine.claim(Claim(worker.incarnation, 1))
        await engine.finish(
            [
                Finish(
                    claimed.fence,
                    ToDeadLetter(
                        dead.id, ErrorInfo("ValueError", "boom"), "no attempts left after 3"
                    ),
                )
            ]
        )

    own = make_store(tmp_path, fill)
    jobs = {job["job_type"]: job["id"] for job in own.json("jobs", "list")["jobs"]}
    shown = own.run("jobs", "show", jobs["frail"]).stdout
    assert "pending no attempts left after 3" in shown
    assert "ValueError: boom" in shown
    explained = own.json("jobs", "explain", jobs["frail"])["reasons"]
    assert "`taskforge jobs redrive`" in explained[0]["text"]
    assert "never dead-lettered" in own.run("jobs", "redrive", jobs["other"], status=2).stderr
    assert own.json("jobs", "redrive", "--queue", "dead", "--yes") == {
        "changed": 1,
        "refused": 0,
        "jobs": [],
    }
    job = own.json("jobs", "show", jobs["frail"])["job"]
    assert (job["queue"], job["status"], job["error"], job["reason"]) == (
        "default",
        "pending",
        None,
        None,
    )
