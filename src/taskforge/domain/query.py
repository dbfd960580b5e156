"""What a reader may ask for."""

import base64
import binascii
import re
from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.ids import first_id_at, is_job_id
from taskforge.domain.job import JobStatus
from taskforge.domain.job_parts import Parts

MAX_PAGE = 1_000
MOST_IDS = 100  # that one request may ask for
MOST_VALUES = 50  # that one field of a filter may have


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Every field narrows; empty ones do not. Of several values in one field a job has one. Times
    are half-open: from `after` up to, not including, `before`."""

    queues: tuple[str, ...] = ()  # names or ids
    statuses: tuple[JobStatus, ...] = ()
    job_types: tuple[str, ...] = ()
    priorities: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    scheduled_after: datetime | None = None
    scheduled_before: datetime | None = None
    # jobs that have failed for good in this way, and dead letters that wait because of it
    failure_group: UUID | None = None

    def id_range(self) -> tuple[UUID | None, UUID | None]:
        """Creation times as ids, which carry them."""
        after, before = self.created_after, self.created_before
        return (
            None if after is None else first_id_at(after),
            None if before is None else first_id_at(before),
        )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first. A cursor is what the page before it returned; an offset skips jobs, and costs
    what it skips. Payloads and results are read when they are asked for."""

    limit: int = 50
    cursor: str | None = None
    offset: int = 0
    include: Parts = frozenset()

    def before(self) -> UUID | None:
        """Its jobs are older than this one."""
        return None if self.cursor is None else self._position(self.cursor)[0]

    def skipped(self) -> int:
        """How many of the jobs that match are left out before the first of the page."""
        return self.offset if self.cursor is None else self._position(self.cursor)[1]

    @staticmethod
    def _position(cursor: str) -> tuple[UUID, int]:
        try:
            whole = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            identifier = UUID(bytes=whole[:16])
        except (ValueError, binascii.Error):
            whole, identifier = b"", UUID(int=0)
        if not is_job_id(identifier) or len(whole) not in (16, 19):
            raise Invalid(
                "cursor",
                "is not one that a listing returned",
                "pass the cursor of the page before, unchanged",
            )
        return identifier, int.from_bytes(whole[16:])


def cursor_at(job: UUID, skip: int = 0) -> str:
    """Behind this job, and behind so many more that match: an offset, as far as a search has not
    come to its end."""
    whole = job.bytes + (skip.to_bytes(3) if skip else b"")
    return base64.urlsafe_b64encode(whole).decode().rstrip("=")


def check_page(page: Page) -> None:
    rules.integer("limit", page.limit, 1, MAX_PAGE)
    rules.integer("offset", page.offset, 0, 1_000_000)
    if page.cursor is not None and page.offset:
        raise Invalid("offset", "is given together with a cursor", "use one of them")


def check_filter(wanted: JobFilter) -> None:
    for name in ("created_after", "created_before", "scheduled_after", "scheduled_before"):
        value = getattr(wanted, name)
        if value is not None:
            rules.moment(name, value)
    for priority in wanted.priorities:
        rules.integer("priority", priority, 0, 9)
    if wanted.failure_group is not None and wanted.tags:
        raise Invalid("tag", "is given together with failure_group", "use one of them")
    for name, field in (
        ("queue", wanted.queues),
        ("job_type", wanted.job_types),
        ("tag", wanted.tags),
    ):
        if len(field) > MOST_VALUES:
            raise Invalid(
                name, f"is given {len(field):,} times", f"ask for at most {MOST_VALUES} at once"
            )


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    queue_id: UUID
    is_active: bool
    pending: int = 0
    scheduled: int = 0
    processing: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    oldest_pending_seconds: float | None = None
    # when pending, scheduled and processing were counted, where they are too many to be counted now
    counted_at: datetime | None = None

    @property
    def total(self) -> int:
        return (
            self.pending
            + self.scheduled
            + self.processing
            + self.succeeded
            + self.failed
            + self.cancelled
        )


class WorkerTotals(msgspec.Struct, frozen=True):
    """How the executions of one worker (its identity) ended, in all its lives."""

    worker: UUID
    completed: int = 0
    failed: int = 0  # those that were tried again, or went to a dead letter queue, among them


class Event(msgspec.Struct, frozen=True):
    """Something that happened, in commit order: `jobs` of one queue that reached one status
    together, or a change of a queue or a worker (its identity), of a schedule, a node or who
    leads, of which `details` tell."""

    cursor: str  # where a reader goes on behind it; a text of the store's own
    project: int
    topic: str
    queue: int | None
    jobs: tuple[UUID, ...]
    at: datetime
    worker: UUID | None = None
    details: str | None = None  # as JSON


CLUSTER = 0
"""The project of events that are no project's: of nodes, and of who leads."""
FIRST = "0"
"""The cursor before every event there ever was."""


class Events(msgspec.Struct, frozen=True):
    items: list[Event]
    cursor: str  # where to go on


def event_position(cursor: str, parts: int) -> tuple[int, ...]:
    """A store's cursor as numbers; those left out are zero."""
    if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})*", cursor) or cursor.count(".") >= parts:
        raise Invalid(
            "after",
            f"is {cursor[:50]!r}, not the cursor of an event",
            "pass a cursor unchanged, or none to begin now",
        )
    numbers = [int(part) for part in cursor.split(".")]
    return tuple(numbers + [0] * (parts - len(numbers)))


class Pruned(msgspec.Struct, frozen=True):
    """What one slice of pruning removed."""

    jobs: int
    more: bool  # whether another slice would find something
