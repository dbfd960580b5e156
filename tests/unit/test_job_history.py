"""The line that each ended execution leaves, and where it stands among what the handlers logged."""

from datetime import UTC, datetime, timedelta

import pytest

from taskforge.domain.execution import Execution, ExecutionStatus
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import ErrorInfo
from taskforge.domain.log import Level
from taskforge.operations.history import Entry, ending, merged

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB = IdMint()()


def execution(status: ExecutionStatus, *, epoch: int = 1, reason: str | None = None, error: ErrorInfo | None = None) -> Execution:
    active = status in (ExecutionStatus.QUEUED, ExecutionStatus.STARTED, ExecutionStatus.RUNNING)
    return Execution(
        id=fence_of(JOB, epoch),
        job=JOB,
        attempt_number=epoch,
        status=status,
        worker=None,
        created_at=START,
        started_at=START,
        finished_at=None if active else START + timedelta(seconds=2 * epoch),
        reason=reason,
        error=error,
    )


BOOM = ErrorInfo("ValueError", "boom\nand more")


@pytest.mark.parametrize(
    ("ended", "level", "message"),
    [
        (execution(ExecutionStatus.SUCCEEDED), Level.INFO, "attempt 1 succeeded in 2.0 s"),
        (
            execution(ExecutionStatus.RETRY_SCHEDULED, error=BOOM),
            Level.WARN,
            "attempt 1 failed after 2.0 s: ValueError: boom; a retry is scheduled",
        ),
        (
            execution(ExecutionStatus.RETRY_SCHEDULED, error=ErrorInfo("Timeout", "…")),
            Level.WARN,
            "attempt 1 timed out after 2.0 s; a retry is scheduled",
        ),
        (
            execution(ExecutionStatus.FAILED, error=BOOM, reason="no attempts left after 1"),
            Level.ERROR,
            "attempt 1 failed after 2.0 s: ValueError: boom; failed for good (no attempts left after 1)",
        ),
        (
            execution(ExecutionStatus.DEAD_LETTER, error=BOOM, reason="no attempts left after 1"),
            Level.ERROR,
            "attempt 1 failed after 2.0 s: ValueError: boom; moved to the dead letter queue (no attempts left after 1)",
        ),
        (execution(ExecutionStatus.CANCELLED, reason="worker stopped"), Level.INFO, "attempt 1 ended after 2.0 s: worker stopped"),
    ],
)
def test_every_end_leaves_a_line(ended: Execution, level: Level, message: str) -> None:
    entry = ending(ended)
    assert entry is not None
    assert (entry.level, entry.message, entry.at, entry.id) == (level, message, ended.finished_at, None)


@pytest.mark.parametrize("status", [ExecutionStatus.QUEUED, ExecutionStatus.STARTED, ExecutionStatus.RUNNING])
def test_what_still_runs_leaves_none(status: ExecutionStatus) -> None:
    assert ending(execution(status)) is None


def test_lines_and_ends_stand_in_order() -> None:
    first, second = execution(ExecutionStatus.RETRY_SCHEDULED, error=BOOM), execution(ExecutionStatus.SUCCEEDED, epoch=2)
    said = [
        Entry(at=START + timedelta(seconds=after), level=level, message=message, execution=of.id, attempt=None, id=number)
        for number, (after, level, message, of) in enumerate(
            [(1, Level.DEBUG, "one", first), (2, Level.INFO, "two", first), (3, Level.INFO, "three", second)]
        )
    ]
    entries = merged([first, second], said)
    assert [entry.message.partition(" after")[0] for entry in entries] == [
        "one",
        "two",  # said in the very instant in which the attempt ended
        "attempt 1 failed",
        "three",
        "attempt 2 succeeded in 4.0 s",
    ]
    assert [entry.attempt for entry in entries] == [1, 1, 1, 2, 2]
    assert [entry.message for entry in merged([second], [], Level.WARN)] == []
