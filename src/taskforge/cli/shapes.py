"""What --json prints: the shapes that scripts rely on. docs/reference/cli.md lists them; a field is
added, never renamed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.changes import Changed
from taskforge.domain.execution import Execution
from taskforge.domain.job import Refused, StoredJob
from taskforge.domain.job_parts import WHOLE
from taskforge.domain.log import Line
from taskforge.domain.query import Page, QueueStats
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker

Shape = dict[str, Any]


def job(found: StoredJob) -> Shape:
    shape = msgspec.structs.asdict(found)
    shape["requires"] = msgspec.json.decode(found.requires) if found.requires else None
    return shape


def listed_job(found: StoredJob, page: Page) -> Shape:
    """Without what was not asked for."""
    left_out = WHOLE - page.include
    return {name: value for name, value in job(found).items() if name not in left_out}


def execution(found: Execution) -> Shape:
    return msgspec.structs.asdict(found) | {
        "duration_ms": found.duration_ms,
        "updated_at": found.updated_at,
    }


def line(found: Line, attempts: Mapping[UUID, int]) -> Shape:
    return {
        "at": found.logged_at,
        "level": found.level.name.lower(),
        "message": found.message,
        "execution": found.execution,
        "attempt": attempts.get(found.execution),
        "id": str(found.id),
        "metadata": found.metadata,
        "ended": found.ended,
    }


def queue(found: Queue) -> Shape:
    shape = msgspec.structs.asdict(found)
    del shape["number"]  # the store's own short name
    shape["settings"] = msgspec.structs.asdict(found.settings)
    return shape


def stats(found: QueueStats) -> Shape:
    return msgspec.structs.asdict(found) | {"total": found.total}


def worker(found: Worker) -> Shape:
    return msgspec.structs.asdict(found) | {"accepts_jobs": found.accepts_jobs}


def answer(identifier: UUID, found: Changed | Refused) -> Shape:
    if isinstance(found, Refused):
        return {
            "id": identifier,
            "changed": False,
            "status": None,
            "note": None,
            "error": str(found.error),
        }
    return {
        "id": identifier,
        "changed": True,
        "status": found.status,
        "note": found.note,
        "error": None,
    }


def change_of_status(found: StoredJob, before: str | None, at: datetime) -> Shape:
    return {
        "at": at,
        "id": found.id,
        "queue": found.queue,
        "job_type": found.job_type,
        "before": before,
        "status": found.status,
        "attempt_count": found.attempt_count,
        "max_attempts": found.max_attempts,
        "reason": found.reason,
        "error": found.error,
    }
