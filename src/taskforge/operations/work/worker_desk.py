"""What workers ask of a server: to be known, to get jobs, to say what came of them. Each touches
only what is its own, and every outcome is decided here."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.access import Principal
from taskforge.domain.claim import Claim
from taskforge.domain.custom_value import CustomSum
from taskforge.domain.errors import Invalid, LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import HandBackOutcome, Lost, Outcome
from taskforge.domain.tenancy import Project
from taskforge.domain.worker import NewWorker, Registered, Renewed, Sample
from taskforge.domain.worker_protocol import MOST_AT_ONCE, MOST_WAIT_SECONDS
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.operations.custom_metrics import count_customs
from taskforge.operations.limits.ceilings import Ceilings
from taskforge.operations.limits.connection_limits import Places
from taskforge.operations.limits.worker_quotas import WorkerQuotas
from taskforge.operations.work.claim_desk import ClaimDesk
from taskforge.operations.work.completion import Ended, attempt_of, complete
from taskforge.operations.work.enrolled_workers import (
    Enrolled,
    EnrolledWorkers,
    kind_of,
)
from taskforge.operations.work.given_jobs import Given, GivenJobs
from taskforge.operations.work.held_jobs import find_held
from taskforge.ports.engine import Engine

# Given out so long ago, a job whose worker does not know of it never reached it.
ON_THE_WAY = timedelta(seconds=5)
STALE_SECONDS = 2.0


class Report(msgspec.Struct, frozen=True):
    fence: UUID
    outcome: Outcome
    ran: float | None = None


class WorkerDesk:
    def __init__(
        self,
        engine: Engine,
        tenants: Tenants,
        quotas: WorkerQuotas,
        ceilings: Ceilings,
        waiting: Places,
        lease_seconds: float,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._quotas = quotas
        self._ceilings = ceilings
        self._waiting = waiting
        self._lease_seconds = lease_seconds
        self._chance = chance
        self._monotonic = monotonic
        self._enrolled = EnrolledWorkers(engine, tenants, lease_seconds, monotonic)
        self._given = GivenJobs(monotonic)
        self._assignments: dict[int, tuple[float, frozenset[UUID]]] = {}
        self.claims = ClaimDesk(engine)

    # --- Being known ---

    async def register(
        self, project: Project, worker: NewWorker, lease_seconds: float
    ) -> Registered:
        lease = self._lease(lease_seconds)
        registered = await self._quotas.register(project, worker, lease)
        kind = kind_of(project.number, worker)
        self._enrolled.remember(
            Enrolled(
                registered.incarnation,
                registered.worker,
                project.number,
                kind,
                self._enrolled.until(lease),
                lease,
            )
        )
        return registered

    async def heartbeat(
        self, principal: Principal, incarnation: UUID, lease_seconds: float | None, sample: Sample
    ) -> Renewed:
        known = await self._enrolled.find(principal, incarnation)
        lease = self._lease(known.lease_seconds if lease_seconds is None else lease_seconds)
        renewed = await self._engine.renew(incarnation, lease, sample)
        named = known.lease_seconds if lease_seconds is None else lease
        self._enrolled.remember(
            msgspec.structs.replace(
                known, until=self._enrolled.until(lease), lease_seconds=named, slots=renewed.slots
            )
        )
        return renewed

    async def deregister(
        self, principal: Principal, incarnation: UUID, *, died: bool = False
    ) -> None:
        # Of a death one may hear long after: the lease is over, and the worker perhaps registered
        # anew under the same name.
        with suppress(LeaseLost) if died else nullcontext():
            await self._enrolled.find(principal, incarnation)
        await self._engine.deregister(incarnation, died=died, projects=principal.projects)
        self._enrolled.pop(incarnation, None)

    async def forget_ended(self) -> None:
        """Those not heard of for longer than their lease, what they were given, and what was given
        out too long ago."""
        self._enrolled.forget_silent()
        self._given.forget(self._enrolled)

    def _lease(self, seconds: float | None) -> float:
        return (
            self._lease_seconds
            if seconds is None
            else rules.number("lease_seconds", seconds, 0.5, 3_600)
        )

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
        worker = await self._enrolled.find(principal, incarnation)
        if held is not None:
            await self._take_back(worker, set(held))
        # Assignments go by identity: whoever has some does not wait with those who have none. Nor
        # does whoever has no slot left: that it gets nothing must not be taken for there being
        # nothing.
        is_full = (
            worker.slots is not None and self._given.count(incarnation) - reporting >= worker.slots
        )
        alone = is_full or worker.identity in await self._assigned(worker.project)
        kind, take = (
            (worker.kind, worker.identity if alone else None),
            partial(self._waiting.take, principal),
        )
        wish = Claim(incarnation, limit, remote=True, reporting=reporting)
        jobs = await self.claims.claim(wish, kind, wait_seconds, take, worker.project)
        for job in jobs:
            self._given.add(job.fence, incarnation, attempt_of(job), job.policy)
        return jobs

    async def _assigned(self, project: int) -> frozenset[UUID]:
        found = self._assignments.get(project)
        if found is None or self._monotonic() - found[0] > STALE_SECONDS:
            workers = frozenset(
                one.worker for one in await self._engine.assignments([project]) if one.is_active
            )
            found = self._assignments[project] = (self._monotonic(), workers)
        return found[1]

    async def _take_back(self, worker: Enrolled, held: set[UUID]) -> None:
        """What the store thinks this worker runs, and it does not: the answer that gave it out was
        lost."""
        since = await self._engine.now() - ON_THE_WAY
        running = await self._engine.active_executions(
            [worker.project], timed_out=False, limit=100_000
        )
        orphans = [
            one.id
            for one in running
            if one.worker == worker.incarnation and one.id not in held and one.created_at < since
        ]
        if orphans:
            outcome = HandBackOutcome("the answer that gave it out was lost")
            await complete(
                self._engine, [Ended.unspent(fence, outcome) for fence in orphans], self._chance
            )

    # --- Saying what came of them ---

    async def complete(
        self, principal: Principal, incarnation: UUID, reports: Sequence[Report]
    ) -> list[UUID]:
        """Those that were not this worker's any more come back."""
        _check_many("outcomes", reports)
        worker = await self._enrolled.find_holder(
            principal, incarnation, [one.fence for one in reports]
        )
        held = await self._held(worker, [one.fence for one in reports])
        ended: dict[UUID, Ended] = {}
        lost: list[UUID] = []
        outcomes = await self._ceilings.admit_outcomes(
            worker.project, [one.outcome for one in reports]
        )
        for one, outcome in zip(reports, outcomes, strict=True):
            given = held.get(one.fence)
            if given is None or one.fence in ended:
                lost.append(one.fence)  # of two reports on one execution the first counts
            else:
                ended[one.fence] = Ended(given.fence, given.attempt, given.policy, outcome, one.ran)
        lost += await complete(self._engine, list(ended.values()), self._chance)
        for fence in ended:
            self._given.remove(fence)
        self.claims.hear_reports(incarnation, len(ended))
        return lost

    async def beat(
        self, principal: Principal, incarnation: UUID, beats: Sequence[Beat]
    ) -> list[UUID]:
        _check_many("beats", beats)
        fences = [one.fence for one in beats]
        held = await self._held(
            await self._enrolled.find_holder(principal, incarnation, fences), fences
        )
        return self._lost(
            beats, held, await self._engine.beat([one for one in beats if one.fence in held])
        )

    async def log(
        self, principal: Principal, incarnation: UUID, lines: Sequence[NewLine]
    ) -> list[UUID]:
        _check_many("lines", lines)
        fences = [one.fence for one in lines]
        worker = await self._enrolled.find_holder(principal, incarnation, fences)
        held = await self._held(worker, fences)
        await self._ceilings.admit_lines(
            worker.project, [one for one in lines if one.fence in held]
        )
        return self._lost(
            lines, held, await self._engine.log([one for one in lines if one.fence in held])
        )

    async def count(
        self, principal: Principal, incarnation: UUID, sums: Sequence[CustomSum]
    ) -> None:
        """What its handlers counted, for the project it works in."""
        _check_many("values", sums)
        worker = await self._enrolled.find(principal, incarnation)
        await count_customs(self._engine, worker.project, sums)

    def _lost(
        self,
        told: Sequence[Beat] | Sequence[NewLine],
        held: dict[UUID, Given],
        lost: Sequence[Lost],
    ) -> list[UUID]:
        """Which of those told of are not the worker's, or by what the store says are not any
        more."""
        for one in lost:
            self._given.remove(one.fence)
        return [
            *dict.fromkeys(one.fence for one in told if one.fence not in held),
            *(one.fence for one in lost),
        ]

    def _own(self, worker: Enrolled, fence: UUID) -> Given | None:
        given = self._given.get(fence)
        return given if given is not None and given.incarnation == worker.incarnation else None

    async def _held(self, worker: Enrolled, fences: Sequence[UUID]) -> dict[UUID, Given]:
        """Those that are this worker's. Of what another server handed out, or this one long ago,
        the store knows whose it is."""
        held = {fence: given for fence in fences if (given := self._own(worker, fence)) is not None}
        unknown = {fence for fence in fences if fence not in held}
        if not unknown:
            return held
        for one in await find_held(self._engine, worker.project, worker.incarnation, unknown):
            held[one.fence] = self._given.add(
                one.fence, worker.incarnation, one.attempt, one.policy
            )
        return held


def _check_many(field: str, items: Sequence[object]) -> None:
    if len(items) > MOST_AT_ONCE:
        raise Invalid(field, f"are {len(items):,}", f"send at most {MOST_AT_ONCE:,} at a time")
