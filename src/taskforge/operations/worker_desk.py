"""What workers ask of a server: to be known, to get jobs, to say what came of them. Each touches only what is its own, and every
outcome is decided here."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.access import Forbidden, Principal
from taskforge.domain.errors import Invalid, LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.ids import fence_of, job_of
from taskforge.domain.job import Claimed, Job, JobStatus
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import Attempt, HandBackOutcome, Lost, Outcome
from taskforge.domain.queue import QueueSettings
from taskforge.domain.tenancy import Project
from taskforge.domain.wire import MOST_AT_ONCE, MOST_WAIT_SECONDS
from taskforge.domain.worker import NewWorker, Registered, Renewed, Sample, Worker
from taskforge.operations.claim_desk import ClaimDesk
from taskforge.operations.completing import Ended, attempt_of, complete
from taskforge.operations.places import Places
from taskforge.operations.quotas import Quotas
from taskforge.operations.tenants import Tenants
from taskforge.storage.engine import Claim, Engine

REMEMBERED_AT_MOST = 200_000
# What is not remembered is looked up: of jobs that ended by another server, or with their worker, none must be kept for long.
REMEMBERED_SECONDS = 120.0
SILENT_SECONDS = 60.0  # beyond its lease; heartbeats may go to another server
# Given out so long ago, a job whose worker does not know of it never reached it.
ON_THE_WAY = timedelta(seconds=5)
STALE_SECONDS = 2.0


class Enrolled(msgspec.Struct, frozen=True):
    """An incarnation, whose it is, and what it may take: workers alike in that wait as one."""

    incarnation: UUID
    identity: UUID
    project: int
    kind: Hashable
    until: float  # by our clock: not heard of for so long, it is forgotten
    lease_seconds: float | None = None  # None: it registered with another server, or before this one started
    slots: int | None = None  # None: not heard yet


class Given(msgspec.Struct, frozen=True):
    """A job in a worker's hands: what deciding its outcome takes, without asking the store again. Its payload does not."""

    fence: UUID
    incarnation: UUID
    attempt: Attempt
    policy: QueueSettings
    until: float


class Report(msgspec.Struct, frozen=True):
    fence: UUID
    outcome: Outcome
    ran: float | None = None


class WorkerDesk:
    def __init__(
        self,
        engine: Engine,
        tenants: Tenants,
        quotas: Quotas,
        waiting: Places,
        lease_seconds: float,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._tenants = tenants
        self._quotas = quotas
        self._waiting = waiting
        self._lease_seconds = lease_seconds
        self._chance = chance
        self._monotonic = monotonic
        self._enrolled: dict[UUID, Enrolled] = {}
        self._given: dict[UUID, Given] = {}
        self._holding: Counter[UUID] = Counter()  # how many of those each incarnation holds
        self._assignments: dict[int, tuple[float, frozenset[UUID]]] = {}
        self.claims = ClaimDesk(engine)

    # --- Being known ---

    async def register(self, project: Project, worker: NewWorker, lease_seconds: float) -> Registered:
        lease = self._lease(lease_seconds)
        registered = await self._quotas.register(project, worker, lease)
        kind = _kind(project.number, worker)
        self._remember(Enrolled(registered.incarnation, registered.worker, project.number, kind, self._until(lease), lease))
        return registered

    async def heartbeat(self, principal: Principal, incarnation: UUID, lease_seconds: float | None, sample: Sample) -> Renewed:
        known = await self._enrol(principal, incarnation)
        lease = self._lease(known.lease_seconds if lease_seconds is None else lease_seconds)
        renewed = await self._engine.renew(incarnation, lease, sample)
        named = known.lease_seconds if lease_seconds is None else lease
        self._remember(msgspec.structs.replace(known, until=self._until(lease), lease_seconds=named, slots=renewed.slots))
        return renewed

    async def deregister(self, principal: Principal, incarnation: UUID, *, died: bool = False) -> None:
        # Of a death one may hear long after: the lease is over, and the worker perhaps registered anew under the same name.
        with suppress(LeaseLost) if died else nullcontext():
            await self._enrol(principal, incarnation)
        await self._engine.deregister(incarnation, died=died, projects=principal.projects)
        self._enrolled.pop(incarnation, None)

    async def forget_ended(self) -> None:
        """Those not heard of for longer than their lease, what they were given, and what was given out too long ago."""
        now = self._monotonic()
        self._enrolled = {key: one for key, one in self._enrolled.items() if one.until > now}
        self._given = {key: one for key, one in self._given.items() if one.until > now and one.incarnation in self._enrolled}
        self._holding = Counter(one.incarnation for one in self._given.values())

    def _until(self, lease_seconds: float) -> float:
        return self._monotonic() + lease_seconds + SILENT_SECONDS

    def _lease(self, seconds: float | None) -> float:
        return self._lease_seconds if seconds is None else rules.number("lease_seconds", seconds, 0.5, 3_600)

    async def _enrol(self, principal: Principal, incarnation: UUID) -> Enrolled:
        """Also after a restart of this server, or for a worker that registered with another."""
        known = self._enrolled.get(incarnation)
        if known is None:
            found = await self._find(principal.projects, incarnation)
            if found is None:
                found = await self._find(await self._tenants.others(principal), incarnation)
            if found is None:
                raise LeaseLost(f"worker incarnation {incarnation} is not registered; register again")
            until = self._until(self._lease_seconds)
            known = Enrolled(
                incarnation, found.id, found.project, _kind(found.project, found), until, slots=found.max_concurrent_jobs
            )
            self._remember(known)
        if known.project not in principal.projects:
            raise Forbidden(f"worker incarnation {incarnation} is not one that {principal.label} may touch")
        return known

    async def _holder(self, principal: Principal, incarnation: UUID, fences: Sequence[UUID]) -> Enrolled:
        """Whoever says something of its jobs. Its lease may be over, and its worker have registered anew: what it holds by the
        store's word is its own all the same, until somebody takes it away."""
        try:
            return await self._enrol(principal, incarnation)
        except LeaseLost:
            for job in await self._engine.get(principal.projects, list({job_of(fence) for fence in fences})):
                if _is_held(job, incarnation) and fence_of(job.id, job.epoch) in fences:
                    return Enrolled(incarnation, incarnation, job.project, None, 0.0)
            raise

    async def _find(self, projects: Sequence[int], incarnation: UUID) -> Worker | None:
        return next((one for one in await self._engine.workers(projects) if one.incarnation == incarnation), None)

    def _remember(self, worker: Enrolled) -> None:
        self._enrolled.pop(worker.incarnation, None)
        self._enrolled[worker.incarnation] = worker
        _drop_oldest(self._enrolled)

    # --- Getting jobs ---

    async def claim(
        self,
        principal: Principal,
        incarnation: UUID,
        limit: int,
        wait_seconds: float,
        held: Sequence[UUID] | None,
        reporting: int = 0,
    ) -> list[Claimed]:
        rules.integer("limit", limit, 0, MOST_AT_ONCE)
        rules.number("wait_seconds", wait_seconds, 0, MOST_WAIT_SECONDS)
        rules.integer("reporting", reporting, 0, 1_000_000)
        worker = await self._enrol(principal, incarnation)
        if held is not None:
            await self._take_back(worker, set(held))
        # Assignments go by identity: whoever has some does not wait with those who have none.
        # Nor does whoever has no slot left: that it gets nothing must not be taken for there being nothing.
        is_full = worker.slots is not None and self._holding[incarnation] - reporting >= worker.slots
        alone = is_full or worker.identity in await self._assigned(worker.project)
        kind, take = (worker.kind, worker.identity if alone else None), partial(self._waiting.take, principal)
        wish = Claim(incarnation, limit, remote=True, reporting=reporting)
        jobs = await self.claims.claim(wish, kind, wait_seconds, take)
        for job in jobs:
            self._give(job.fence, incarnation, attempt_of(job), job.policy)
        return jobs

    def _give(self, fence: UUID, incarnation: UUID, attempt: Attempt, policy: QueueSettings) -> Given:
        self._holding[incarnation] += fence not in self._given
        given = self._given[fence] = Given(fence, incarnation, attempt, policy, self._monotonic() + REMEMBERED_SECONDS)
        _drop_oldest(self._given)
        return given

    def _take(self, fence: UUID) -> None:
        given = self._given.pop(fence, None)
        if given is not None:
            self._holding[given.incarnation] -= 1

    async def _assigned(self, project: int) -> frozenset[UUID]:
        found = self._assignments.get(project)
        if found is None or time.monotonic() - found[0] > STALE_SECONDS:
            workers = frozenset(one.worker for one in await self._engine.assignments([project]) if one.is_active)
            found = self._assignments[project] = (time.monotonic(), workers)
        return found[1]

    async def _take_back(self, worker: Enrolled, held: set[UUID]) -> None:
        """What the store thinks this worker runs, and it does not: the answer that gave it out was lost."""
        since = await self._engine.now() - ON_THE_WAY
        running = await self._engine.active_executions([worker.project], timed_out=False, limit=100_000)
        orphans = [one.id for one in running if one.worker == worker.incarnation and one.id not in held and one.created_at < since]
        if orphans:
            outcome = HandBackOutcome("the answer that gave it out was lost")
            await complete(self._engine, [Ended.unspent(fence, outcome) for fence in orphans], self._chance)

    # --- Saying what came of them ---

    async def complete(self, principal: Principal, incarnation: UUID, reports: Sequence[Report]) -> list[UUID]:
        """Those that were not this worker's any more come back."""
        _check_many("outcomes", reports)
        worker = await self._holder(principal, incarnation, [one.fence for one in reports])
        held = await self._held(worker, [one.fence for one in reports])
        ended: dict[UUID, Ended] = {}
        lost: list[UUID] = []
        for one in reports:
            given = held.get(one.fence)
            if given is None or one.fence in ended:
                lost.append(one.fence)  # of two reports on one execution the first counts
            else:
                ended[one.fence] = Ended(given.fence, given.attempt, given.policy, one.outcome, one.ran)
        lost += await complete(self._engine, list(ended.values()), self._chance)
        for fence in ended:
            self._take(fence)
        self.claims.hear_reports(incarnation, len(ended))
        return lost

    async def beat(self, principal: Principal, incarnation: UUID, beats: Sequence[Beat]) -> list[UUID]:
        _check_many("beats", beats)
        fences = [one.fence for one in beats]
        held = await self._held(await self._holder(principal, incarnation, fences), fences)
        return self._lost(beats, held, await self._engine.beat([one for one in beats if one.fence in held]))

    async def log(self, principal: Principal, incarnation: UUID, lines: Sequence[NewLine]) -> list[UUID]:
        _check_many("lines", lines)
        fences = [one.fence for one in lines]
        held = await self._held(await self._holder(principal, incarnation, fences), fences)
        return self._lost(lines, held, await self._engine.log([one for one in lines if one.fence in held]))

    def _lost(self, told: Sequence[Beat] | Sequence[NewLine], held: dict[UUID, Given], lost: Sequence[Lost]) -> list[UUID]:
        """Which of those told of are not the worker's, or by what the store says are not any more."""
        for one in lost:
            self._take(one.fence)
        return [*dict.fromkeys(one.fence for one in told if one.fence not in held), *(one.fence for one in lost)]

    def _own(self, worker: Enrolled, fence: UUID) -> Given | None:
        given = self._given.get(fence)
        return given if given is not None and given.incarnation == worker.incarnation else None

    async def _held(self, worker: Enrolled, fences: Sequence[UUID]) -> dict[UUID, Given]:
        """Those that are this worker's. Of what another server handed out, or this one long ago, the store knows whose it is."""
        held = {fence: given for fence in fences if (given := self._own(worker, fence)) is not None}
        unknown = {fence for fence in fences if fence not in held}
        if not unknown:
            return held
        policies = {queue.name: queue.settings for queue in await self._engine.queues([worker.project])}
        for job in await self._engine.get([worker.project], list({job_of(fence) for fence in unknown})):
            fence = fence_of(job.id, job.epoch)  # of several that were asked for of one job, at most this one holds
            if fence in unknown and _is_held(job, worker.incarnation) and job.queue in policies:
                attempt = Attempt(job.attempt_count, job.max_attempts, job.crash_count, job.epoch, job.cancel_requested)
                held[fence] = self._give(fence, worker.incarnation, attempt, policies[job.queue])
        return held


def _is_held(job: Job, incarnation: UUID) -> bool:
    return job.status is JobStatus.PROCESSING and job.worker == incarnation


def _kind(project: int, worker: NewWorker | Worker) -> Hashable:
    return (
        project,
        worker.queues,
        worker.types,
        worker.worker_type,
        worker.role,
        msgspec.json.encode(worker.capabilities, order="sorted"),
    )


def _drop_oldest(remembered: dict[UUID, Any]) -> None:
    """A tenth at once: a dict finds its first entry behind the gaps of all that went before it."""
    if len(remembered) > REMEMBERED_AT_MOST:
        for one in list(itertools.islice(remembered, REMEMBERED_AT_MOST // 10 + 1)):
            del remembered[one]


def _check_many(field: str, items: Sequence[object]) -> None:
    if len(items) > MOST_AT_ONCE:
        raise Invalid(field, f"are {len(items):,}", f"send at most {MOST_AT_ONCE:,} at a time")
