"""Which workers a server knows, and whose they are."""

from collections.abc import Callable, Hashable, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.access import Forbidden, Principal
from taskforge.domain.errors import LeaseLost
from taskforge.domain.ids import fence_of, job_of
from taskforge.domain.job_parts import BRIEF
from taskforge.domain.worker import NewWorker, Worker
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.operations.work.given_jobs import drop_oldest
from taskforge.operations.work.held_jobs import is_held
from taskforge.ports.engine import Engine

SILENT_SECONDS = 60.0  # beyond its lease; heartbeats may go to another server


class Enrolled(msgspec.Struct, frozen=True):
    """An incarnation, whose it is, and what it may take: workers alike in that wait as one."""

    incarnation: UUID
    identity: UUID
    project: int
    kind: Hashable
    until: float  # by our clock: not heard of for so long, it is forgotten
    # None: it registered with another server, or before this one started
    lease_seconds: float | None = None
    slots: int | None = None  # None: not heard yet


class EnrolledWorkers(dict[UUID, Enrolled]):
    """By incarnation. What is not known here is looked up in the store."""

    def __init__(
        self,
        engine: Engine,
        tenants: Tenants,
        lease_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__()
        self._engine = engine
        self._tenants = tenants
        self._lease_seconds = lease_seconds
        self._monotonic = monotonic

    async def find(self, principal: Principal, incarnation: UUID) -> Enrolled:
        """Also after a restart of this server, or for a worker that registered with another."""
        known = self.get(incarnation)
        if known is None:
            found = await self._look_up(principal.projects, incarnation)
            if found is None:
                found = await self._look_up(await self._tenants.others(principal), incarnation)
            if found is None:
                raise LeaseLost(
                    f"worker incarnation {incarnation} is not registered; register again"
                )
            until = self.until(self._lease_seconds)
            known = Enrolled(
                incarnation,
                found.id,
                found.project,
                kind_of(found.project, found),
                until,
                slots=found.max_concurrent_jobs,
            )
            self.remember(known)
        if known.project not in principal.projects:
            raise Forbidden(
                f"worker incarnation {incarnation} is not one that {principal.label} may touch"
            )
        return known

    async def find_holder(
        self, principal: Principal, incarnation: UUID, fences: Sequence[UUID]
    ) -> Enrolled:
        """Whoever says something of its jobs. Its lease may be over, and its worker have registered
        anew: what it holds by the store's word is its own all the same, until somebody takes it
        away."""
        try:
            return await self.find(principal, incarnation)
        except LeaseLost:
            for job in await self._engine.get(
                principal.projects, list({job_of(fence) for fence in fences}), BRIEF
            ):
                if is_held(job, incarnation) and fence_of(job.id, job.epoch) in fences:
                    return Enrolled(incarnation, incarnation, job.project, None, 0.0)
            raise

    async def _look_up(self, projects: Sequence[int], incarnation: UUID) -> Worker | None:
        found = await self._engine.directory.find_workers(projects, str(incarnation))
        return next((one for one in found if one.incarnation == incarnation), None)

    def remember(self, worker: Enrolled) -> None:
        self.pop(worker.incarnation, None)
        self[worker.incarnation] = worker
        drop_oldest(self)

    def forget_silent(self) -> None:
        """Those not heard of for longer than their lease."""
        now = self._monotonic()
        for incarnation in [key for key, one in self.items() if one.until <= now]:
            del self[incarnation]

    def until(self, lease_seconds: float) -> float:
        return self._monotonic() + lease_seconds + SILENT_SECONDS


def kind_of(project: int, worker: NewWorker | Worker) -> Hashable:
    return (
        project,
        worker.queues,
        worker.types,
        worker.worker_type,
        worker.role,
        msgspec.json.encode(worker.capabilities, order="sorted"),
    )
