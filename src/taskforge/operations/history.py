"""What happened to a job, told in order: what its handlers logged, and one line for the end of each execution.

The store keeps the executions and does not write their ends again as log lines; they are put together here, for every reader alike.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import assert_never
from uuid import UUID

import msgspec

from taskforge.domain.execution import Execution, ExecutionStatus
from taskforge.domain.log import Level
from taskforge.storage.engine import Engine

PAGE = 1_000


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's history. `id` is that of a stored line; the end of an execution has none."""

    at: datetime
    level: Level
    message: str
    execution: UUID
    attempt: int | None
    id: int | None = None
    metadata: msgspec.Raw | None = None


async def history(
    engine: Engine, projects: Sequence[int], job: UUID, *, least: Level = Level.TRACE, most: int = 10_000
) -> list[Entry]:
    """The first `most` stored lines of a job and the ends of its executions, oldest first."""
    return merged(await engine.executions(projects, job), await _lines(engine, projects, job, least, most), least)


def merged(executions: Sequence[Execution], entries: Iterable[Entry], least: Level = Level.TRACE) -> list[Entry]:
    attempts = {one.id: one.attempt_number for one in executions}
    told = [msgspec.structs.replace(entry, attempt=attempts.get(entry.execution)) for entry in entries]
    ends = [entry for one in executions if (entry := ending(one)) is not None and entry.level >= least]
    # What a handler said comes before its end, also when the two share an instant.
    return sorted([*told, *ends], key=lambda entry: (entry.at, entry.id is None))


async def _lines(engine: Engine, projects: Sequence[int], job: UUID, least: Level, most: int) -> list[Entry]:
    entries: list[Entry] = []
    after = 0
    while len(entries) < most:
        wanted = min(PAGE, most - len(entries))
        page = await engine.logs(projects, job, least=least, after=after, limit=wanted, offset=0)
        entries += [
            Entry(
                at=line.logged_at,
                level=line.level,
                message=line.message,
                execution=line.execution,
                attempt=None,
                id=line.id,
                metadata=line.metadata,
            )
            for line in page
        ]
        if len(page) < wanted:
            break
        after = page[-1].id
    return entries


def ending(execution: Execution) -> Entry | None:
    """The line that an ended execution leaves; None while it runs."""
    told = _told(execution)
    if told is None or execution.finished_at is None:
        return None
    level, message = told
    return Entry(
        at=execution.finished_at,
        level=level,
        message=message,
        execution=execution.id,
        attempt=execution.attempt_number,
    )


def _told(execution: Execution) -> tuple[Level, str] | None:
    attempt = f"attempt {execution.attempt_number}"
    match execution.status:
        case ExecutionStatus.QUEUED | ExecutionStatus.STARTED | ExecutionStatus.RUNNING:
            return None
        case ExecutionStatus.SUCCEEDED:
            return Level.INFO, f"{attempt} succeeded in {_took(execution)}"
        case ExecutionStatus.CANCELLED:
            return Level.INFO, f"{attempt} ended after {_took(execution)}: {execution.reason or 'cancelled'}"
        case ExecutionStatus.RETRY_SCHEDULED:
            return Level.WARN, f"{attempt} {_failed(execution)}; a retry is scheduled"
        case ExecutionStatus.DEAD_LETTER:
            return Level.ERROR, f"{attempt} {_failed(execution)}; moved to the dead letter queue{_why(execution)}"
        case ExecutionStatus.FAILED:
            return Level.ERROR, f"{attempt} {_failed(execution)}; failed for good{_why(execution)}"
        case _:
            assert_never(execution.status)


def _failed(execution: Execution) -> str:
    error = execution.error
    if error is not None and error.type == "Timeout":
        return f"timed out after {_took(execution)}"
    cause = "" if error is None else f": {error.type}: {_first_line(error.message)}"
    return f"failed after {_took(execution)}{cause}"


def _why(execution: Execution) -> str:
    return f" ({execution.reason})" if execution.reason else ""


def _first_line(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:500] if lines else ""


def _took(execution: Execution) -> str:
    milliseconds = execution.duration_ms or 0.0
    return f"{milliseconds:.0f} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.1f} s"
