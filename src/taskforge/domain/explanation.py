"""Why a job is not running, as it is told to whoever asks. `explain` makes it; what may stand in
a job's way is in `reasons`."""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Self
from uuid import UUID

import msgspec

from taskforge.domain.circuit import HeldCircuit
from taskforge.domain.eligibility import Hindrance
from taskforge.domain.fairness import NO_KEY, Share
from taskforge.domain.job import JobStatus
from taskforge.domain.limiter import Bucket, BucketState, foresee
from taskforge.domain.worker import Worker, WorkerStatus

MOST_AHEAD = 10_000
# Where reasons tell what an error says, which may hold what was in a payload.
_TOLD_BY_ERRORS = {
    "ended": re.compile(r" \(.*\)$", re.DOTALL),
    "misfit": re.compile(r" \(.*\)(?=: it waits for one that )", re.DOTALL),
}


class Rate(msgspec.Struct, frozen=True):
    """What a rate limit lets through."""

    wait: float  # seconds until the next job may start
    turn: float  # and until this one may, if those ahead start as they may
    pace: float  # jobs a second just now

    @classmethod
    def seen(cls, bucket: Bucket, state: BucketState | None, now: float, ahead: int) -> Self:
        wait, pace = foresee(bucket, state, now, 1)
        return cls(wait, foresee(bucket, state, now, ahead + 1)[0], pace)


class PlaceInLine(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pending job stands, as only the store can tell."""

    ready_seconds: float = 0.0  # since it became ready for the first time, or was placed anew
    # jobs of its queue that are taken first; those that no worker of this job takes do not count
    ahead: int = 0
    elsewhere: int = 0  # the same, of other queues that its workers serve
    running: int = 0  # jobs of its queue, where it limits them
    rate: Rate | None = None
    until: datetime | None = None  # start by, or fail
    # workers whose handlers would not take it, incarnations whose handlers it does not fit
    skipped: frozenset[UUID] = frozenset()
    misfit_at: datetime | None = None  # when its arguments first fitted no handler
    misfit: str | None = None  # and what the last worker said of that
    # where the keys of its queue take turns; `ahead` then counts jobs of its own key, and those of
    # a higher priority
    share: Share | None = None
    key_running: int = 0  # jobs of its key, where those are limited
    key_rate: Rate | None = None  # what a rate lets its key start
    key_waiting: int = 0  # and those that ran before and wait to be tried again
    circuits: tuple[HeldCircuit, ...] = ()  # that let not all jobs of its kind through
    steps: int = 0  # by which its priority has risen for having waited
    # when pacing holds it back no longer, as long as more jobs are ready than slots are free
    opens_at: datetime | None = None
    # where its queue is balanced: what stands for the worker on which it is placed, or `NO_KEY`
    placed: int | None = None

    @property
    def is_placed(self) -> bool:
        return self.placed is not None and self.placed != NO_KEY


class Reason(msgspec.Struct, frozen=True):
    code: str
    text: str
    until: datetime | None = None  # when it is over, where that is known


class Candidate(msgspec.Struct, frozen=True):
    """A worker that is there, and what keeps it from the job, if anything does."""

    name: str
    active_jobs: int
    max_concurrent_jobs: int
    hindrance: str | None
    text: str
    stuck_slots: int = 0  # held by handlers that did not end
    id: UUID | None = None  # by which it is listed; servers of before do not say


class Explanation(msgspec.Struct, frozen=True):
    """Why a job is not running. What stands in its way most comes first; a job that nothing holds
    up has a reason, too."""

    job: UUID
    status: JobStatus
    reasons: tuple[Reason, ...]
    workers: tuple[Candidate, ...] = ()  # those who would take it first, and not more than 100
    workers_online: int = 0
    ahead: int | None = None
    expected_start: datetime | None = None

    def without_errors(self) -> Self:
        """As it is told to who may not see what is in payloads."""
        reasons = tuple(
            msgspec.structs.replace(one, text=_TOLD_BY_ERRORS[one.code].sub("", one.text))
            if one.code in _TOLD_BY_ERRORS
            else one
            for one in self.reasons
        )
        return msgspec.structs.replace(self, reasons=reasons)


Judged = tuple[Worker, Hindrance | None]
"""A worker, and what keeps it from jobs of this kind."""


def hindrance_now(worker: Worker, skipped: Collection[UUID]) -> Hindrance | None:
    """What keeps a worker that may take a job from it just now."""
    if worker.incarnation in skipped:
        return Hindrance.MISFIT
    if worker.drains:
        # before its skip: nothing fails for having been skipped by one that drains
        return Hindrance.DRAINING
    if worker.id in skipped:
        return Hindrance.SKIPPED
    is_full = worker.active_jobs + worker.stuck_slots >= worker.max_concurrent_jobs
    if worker.stuck_slots and is_full:
        return Hindrance.STUCK
    if not worker.healthy or (worker.status is WorkerStatus.UNHEALTHY and not worker.stuck_slots):
        return Hindrance.UNHEALTHY
    return Hindrance.BUSY if is_full else None
