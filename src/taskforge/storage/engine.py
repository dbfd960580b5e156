"""The Protocol every engine implements. Nothing else lives here.

Rules of the interface: calls are batches (one is a list of one); every write about a running job is fenced and reports what it
lost instead of raising; durations cross it, not instants, because the store's clock rules; verbs are typed values, not methods;
no driver type, no SQL and no open transaction crosses it. Raises `StoreUnavailable` when the store is away, and the errors of
`taskforge.domain.errors` for what the caller can mend. A `note` leaves its entry in the audit log, in the change's own transaction.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment, AssignmentChange
from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.execution import Beat, Execution
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Claimed, Inserted, Job, NewJob, Refused
from taskforge.domain.log import Level, Line, NewLine
from taskforge.domain.outcome import Attempt, Finish, Lost, Outcome
from taskforge.domain.query import Events, JobFilter, Page, QueueStats, WorkerTotals
from taskforge.domain.queue import Queue, QueueChange, QueueSettings
from taskforge.domain.worker import NewWorker, Registered, Renewed, Sample, Worker, WorkerChange


class Claim(msgspec.Struct, frozen=True):
    """A worker's wish for up to `limit` jobs. What it may take (queues, types, capabilities, slots) is what it registered with, or
    what operators want."""

    incarnation: UUID
    limit: int
    # The worker may live on when this machine loses its power: what it gets must be on disk before it hears of it.
    remote: bool = False
    # Where it can, an engine that has too little now takes what comes next, and the next claim brings it; limit 0 only ends that.
    standing: bool = False
    # Of the jobs it got so many have ended, and their outcomes are on the way: they take none of its slots, which claims keep.
    reporting: int = 0


class Lapsed(msgspec.Struct, frozen=True):
    """A running job that its worker lost: what came of it, and what `decide` needs to know."""

    fence: UUID
    attempt: Attempt
    outcome: Outcome
    policy: QueueSettings


class Pruned(msgspec.Struct, frozen=True):
    jobs: int
    more: bool  # whether another slice would find something


class Engine(Protocol):
    side_by_side: bool  # whether calls run beside each other, or one after the other and sharing commits
    home: int  # the project that whoever opened it works in

    # --- Life ---
    async def open(self, *, migrate: bool = True) -> None: ...
    async def close(self) -> None: ...
    async def now(self) -> datetime: ...  # also the health check: a cheap round trip to the store

    # --- The path of a job ---
    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Inserted | Refused]: ...
    async def claim(self, claim: Claim) -> list[Claimed]: ...
    async def finish(self, finishes: Sequence[Finish], *, lapsed: bool = False) -> list[Lost]: ...
    async def beat(self, beats: Sequence[Beat]) -> list[Lost]: ...
    async def log(self, lines: Sequence[NewLine]) -> list[Lost]: ...
    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]: ...  # returns how to stop listening

    # --- Workers and leases ---
    async def register(self, project: int, worker: NewWorker, lease_seconds: float) -> Registered: ...
    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed: ...
    # `died`: its process has surely ended, so its lease ends although it holds jobs, which are then rescued as crashed. Said
    # twice, or of one that is not known (in these projects), it is nothing.
    async def deregister(
        self,
        incarnation: UUID,
        note: Note | None = None,
        expected_mark: str | None = None,
        *,
        died: bool = False,
        projects: Sequence[int] | None = None,
    ) -> None: ...
    async def update_worker(self, project: int, change: WorkerChange, note: Note | None = None) -> Worker: ...
    async def workers(self, projects: Sequence[int]) -> list[Worker]: ...
    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]: ...

    # --- Queues ---
    async def change_queue(self, project: int, change: QueueChange, note: Note | None = None) -> Queue: ...
    async def queues(self, projects: Sequence[int]) -> list[Queue]: ...
    async def stats(self, projects: Sequence[int]) -> list[QueueStats]: ...

    # --- Assignments ---
    async def change_assignment(self, project: int, change: AssignmentChange, note: Note | None = None) -> Assignment: ...
    async def assignments(self, projects: Sequence[int]) -> list[Assignment]: ...

    # --- Steering jobs ---
    async def change(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange, note: Note | None = None
    ) -> list[Changed | Refused]: ...

    # --- Reading ---
    async def get(self, projects: Sequence[int], jobs: Sequence[UUID]) -> list[Job]: ...
    async def list_jobs(self, projects: Sequence[int], wanted: JobFilter, page: Page) -> list[Job]: ...
    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]: ...
    async def active_executions(self, projects: Sequence[int], *, timed_out: bool, limit: int) -> list[Execution]: ...
    async def logs(
        self,
        projects: Sequence[int],
        job: UUID,
        *,
        least: Level,
        after: int,
        limit: int,
        offset: int,
        execution: UUID | None = None,  # of this one alone
    ) -> list[Line]: ...
    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation: ...  # why it is not running
    async def events(self, after: str | None, limit: int) -> Events: ...  # behind this cursor; None: from now on

    # --- Upkeep: bounded slices that any process may run ---
    async def stage(self, limit: int) -> int: ...  # due jobs become pending
    # What to decide and finish(lapsed=True); nothing if somebody has looked within these seconds. `rhythm`: somebody looks again
    # within so many seconds; None: nothing new is promised. Who finds after a longer silence that nobody did (the store was away,
    # or could not be written, or its clock was stepped) first bridges it: those who were alive before have not died of it.
    async def lapsed(self, limit: int, *, unless_within: float = 0.0, rhythm: float | None = None) -> list[Lapsed]: ...
    async def expire(self, limit: int) -> int: ...  # deadlines, start-by times, jobs that everyone skipped, deleted queues
    async def fold(self, limit: int) -> int: ...  # deltas into rollups
    async def prune(self, retention_days: float, limit: int) -> Pruned: ...  # old history, keys, events; partitions ahead


@runtime_checkable
class Transactional(Protocol):
    """An engine that can enqueue inside a transaction of the caller's, on the caller's own connection to the same database."""

    async def insert_within(self, connection: Any, project: int, jobs: Sequence[NewJob]) -> list[Inserted | Refused]: ...
