"""The line that the end of each execution leaves in its job's log, and its place among those that
handlers wrote.

Executions are stored, their ends are not written a second time as log lines: engines put them in as
a log is read, so that every reader gets them, in order, in pages and by level like any other line.
"""

from collections.abc import Iterable
from itertools import islice
from typing import assert_never

from taskforge.domain.execution import Execution, ExecutionStatus
from taskforge.domain.ids import epoch_of
from taskforge.domain.log import END, Level, Line, line_id

_LEVELS = {
    ExecutionStatus.SUCCEEDED: Level.INFO,
    ExecutionStatus.CANCELLED: Level.INFO,
    ExecutionStatus.RETRY_SCHEDULED: Level.WARN,
    ExecutionStatus.DEAD_LETTER: Level.ERROR,
    ExecutionStatus.FAILED: Level.ERROR,
}


def ends_at(least: Level) -> tuple[ExecutionStatus, ...]:
    """The statuses whose lines have this level or more."""
    return tuple(status for status, level in _LEVELS.items() if level >= least)


def with_ends(
    lines: Iterable[Line], ended: Iterable[Execution], limit: int, offset: int = 0
) -> list[Line]:
    """Lines with the ends of executions among them. Of both, as many must be given as are asked for
    and skipped."""
    ends = (line for one in ended if (line := ending(one)) is not None)
    return list(islice(sorted([*lines, *ends], key=lambda line: line.id), offset, offset + limit))


def ending(execution: Execution) -> Line | None:
    """The line that an ended execution leaves; None while it runs."""
    if execution.finished_at is None or execution.status not in _LEVELS:
        return None
    return Line(
        line_id(epoch_of(execution.id), END),
        execution.id,
        _LEVELS[execution.status],
        _told(execution, open_error=True),
        None,
        execution.finished_at,
        execution.status,
        _told(execution, open_error=False),
    )


def _told(execution: Execution, *, open_error: bool) -> str:
    attempt = f"attempt {execution.attempt_number}"
    match execution.status:
        case ExecutionStatus.SUCCEEDED:
            return f"{attempt} succeeded in {_took(execution)}"
        case ExecutionStatus.CANCELLED:
            return f"{attempt} ended after {_took(execution)}: {execution.reason or 'cancelled'}"
        case ExecutionStatus.RETRY_SCHEDULED:
            return f"{attempt} {_failed(execution, open_error)}; a retry is scheduled"
        case ExecutionStatus.DEAD_LETTER:
            return (
                f"{attempt} {_failed(execution, open_error)}; moved to the dead letter "
                f"queue{_why(execution)}"
            )
        case ExecutionStatus.FAILED:
            return f"{attempt} {_failed(execution, open_error)}; failed for good{_why(execution)}"
        case ExecutionStatus.QUEUED | ExecutionStatus.STARTED | ExecutionStatus.RUNNING:
            raise AssertionError("it has not ended")
        case _:
            assert_never(execution.status)


def _failed(execution: Execution, open_error: bool) -> str:
    error = execution.error
    if error is not None and error.type == "Timeout":
        return f"timed out after {_took(execution)}"
    cause = (
        f": {error.type}: {_first_line(error.message)}" if error is not None and open_error else ""
    )
    return f"failed after {_took(execution)}{cause}"


def _why(execution: Execution) -> str:
    return f" ({execution.reason})" if execution.reason else ""


def _first_line(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:500] if lines else ""


def _took(execution: Execution) -> str:
    milliseconds = execution.duration_ms or 0.0
    return f"{milliseconds:.0f} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.1f} s"
