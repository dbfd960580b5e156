from pathlib import Path

from taskforge.domain.claim import Claim
from taskforge.domain.job import error_info, new_job
from taskforge.domain.outcome import Finish, ToFailed
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker
from taskforge.ports.engine import Engine
from taskforge.storage.records.failures import FailureRecords
from tests.cli.conftest import make_store


async def fail_some(engine: Engine) -> None:
    kinds = ["letter"] * 3 + ["report"]
    await engine.insert(FIRST_PROJECT, [new_job("default", kind, None) for kind in kinds])
    worker = await engine.register(FIRST_PROJECT, NewWorker(name="w"), 600.0)
    claimed = await engine.claim(Claim(worker.incarnation, 9))
    await engine.finish(
        [
            Finish(one.fence, ToFailed(error_info("Refused", f"order {n} [b]", "at 1"), "no"))
            for n, one in enumerate(claimed)
        ]
    )
    await FailureRecords(engine).fold(100)


def test_groups_of_failures_from_the_shell(tmp_path: Path) -> None:
    shell = make_store(tmp_path, fail_some)
    listed = shell.json("failures", "list", "--sort", "count")["failures"]
    assert [(one["job_type"], one["count"]) for one in listed] == [("letter", 3), ("report", 1)]
    assert "project" not in listed[0]
    letters, reports = (one["id"] for one in listed)
    assert "Refused" in shell.run("failures", "list", "--type", "letter", "--since", "1h").stdout
    shown = shell.run("failures", "show", letters).stdout
    assert "order <number> [b]" in shown
    assert "3 jobs" in shown
    assert "failed 3 times from" in shown
    alone = shell.run("failures", "show", reports).stdout
    assert "failed 1 time from" in alone
    assert "failed 1 job\n" in alone
    whole = shell.json("failures", "show", letters)["failure"]
    assert (whole["failed"]["count"], whole["example"]["traceback"]) == (3, "at 1")
    assert "3 would be changed" in shell.run("failures", "retry", letters, "--dry-run").stdout
    assert shell.json("failures", "retry", letters, "--yes") == {"changed": 3, "refused": 0}
    assert "1 changed" in shell.run("failures", "delete", reports, "--yes").stdout
    assert shell.json("failures", "show", reports)["failure"]["example"] is None
    wrong = shell.run("failures", "show", "letters", status=2)
    assert "taskforge failures list" in wrong.stderr
    none = shell.run("failures", "list", "--type", "none").stdout
    assert "no failures that fit; `taskforge failures list` tells of all" in none
    gone = shell.run("failures", "show", "01a1e2be-4d1d-7679-94eb-56fdf5000000", status=2)
    assert "see `taskforge failures list`" in gone.stderr
