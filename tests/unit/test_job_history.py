"""The line that each ended execution leaves, and where it stands among what the handlers logged."""

from datetime import UTC, datetime, timedelta

import pytest

from taskforge.domain.execution import Execution, ExecutionStatus
from taskforge.domain.history import ending, ends_at, with_ends
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import ErrorInfo
from taskforge.domain.log import END, Level, Line, line_id

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB = IdMint()()


def execution(
    status: ExecutionStatus,
    *,
    epoch: int = 1,
    reason: str | None = None,
    error: ErrorInfo | None = None,
) -> Execution:
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
            (
                "attempt 1 failed after 2.0 s: ValueError: boom; failed for good (no attempts left "
                "after 1)"
            ),
        ),
        (
            execution(ExecutionStatus.DEAD_LETTER, error=BOOM, reason="no attempts left after 1"),
            Level.ERROR,
            (
                "attempt 1 failed after 2.0 s: ValueError: boom; moved to the dead letter queue "
                "(no attempts left after 1)"
            ),
        ),
        (
            execution(ExecutionStatus.CANCELLED, reason="worker stopped"),
            Level.INFO,
            "attempt 1 ended after 2.0 s: worker stopped",
        ),
    ],
)
def test_every_end_leaves_a_line(ended: Execution, level: Level, message: str) -> None:
    line = ending(ended)
    assert line is not None
    assert (line.level, line.message, line.logged_at, line.id) == (
        level,
        message,
        ended.finished_at,
        line_id(1, END),
    )
    assert (line.execution, line.ended) == (ended.id, ended.status)
    # An error's words may hold what was in a payload: there is a line without them.
    assert "boom" not in str(line.guarded)
    assert str(line.guarded).startswith("attempt 1 ")


@pytest.mark.parametrize(
    "status", [ExecutionStatus.QUEUED, ExecutionStatus.STARTED, ExecutionStatus.RUNNING]
)
def test_what_still_runs_leaves_none(status: ExecutionStatus) -> None:
    assert ending(execution(status)) is None


def test_lines_and_ends_stand_in_order() -> None:
    first, second = (
        execution(ExecutionStatus.RETRY_SCHEDULED, error=BOOM),
        execution(ExecutionStatus.SUCCEEDED, epoch=2),
    )
    said = [
        Line(line_id(epoch, number), of.id, Level.INFO, message, None, START)
        for number, (epoch, message, of) in enumerate(
            [(1, "one", first), (1, "two", first), (2, "three", second)], 7
        )
    ]
    lines = with_ends(said, [first, second], 10)
    assert [line.message.partition(" after")[0] for line in lines] == [
        "one",
        "two",
        "attempt 1 failed",
        "three",
        "attempt 2 succeeded in 4.0 s",
    ]
    assert [line.message for line in with_ends(said, [first, second], 2, 1)] == [
        line.message for line in lines[1:3]
    ]


@pytest.mark.parametrize("least", Level)
def test_ends_have_a_level_like_any_line(least: Level) -> None:
    shown = {status: ending(execution(status, error=BOOM)) for status in ends_at(least)}
    assert all(line is not None and line.level >= least for line in shown.values())
    every = {status for status in ExecutionStatus if ending(execution(status)) is not None}
    hidden = [ending(execution(status)) for status in every - shown.keys()]
    assert all(line is not None and line.level < least for line in hidden)
