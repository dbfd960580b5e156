"""How many workers a project, and its organization in all, may have. Whoever holds a lease counts,
heard of or not, healthy or not."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from taskforge.domain.errors import TaskForgeError
from taskforge.domain.tenancy import CeilingReached, Project, QuotaExceeded
from taskforge.domain.worker import NewWorker, Registered
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.ports.engine import Engine


class _Bound(msgspec.Struct, frozen=True):
    projects: Sequence[int]
    most: int
    is_ceiling: bool

    def refusal(self, leases: Sequence[float]) -> TaskForgeError:
        if self.is_ceiling:
            return CeilingReached("workers", self.most)
        return QuotaExceeded("workers", self.most, min(30, *leases) if leases else 1)


class WorkerQuotas:
    def __init__(self, engine: Engine, tenants: Tenants) -> None:
        self._engine = engine
        self._tenants = tenants
        self._registering: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def register(
        self, project: Project, worker: NewWorker, lease_seconds: float
    ) -> Registered:
        """As the engine does, where there is room."""
        bounds = await self._bounds(project)
        if not bounds:
            return await self._engine.register(project.number, worker, lease_seconds)
        # once before the lock, so that those refused do not queue for it
        await self._check(bounds)
        async with self._registering[project.organization]:
            await self._check(bounds)
            registered = await self._engine.register(project.number, worker, lease_seconds)
            for bound in bounds:
                if len(await self._leases(bound.projects)) > bound.most:
                    # Another server registered one meanwhile. Each looks after its own is stored,
                    # so at least the later one steps back.
                    await self._engine.deregister(registered.incarnation)
                    raise bound.refusal([])
            return registered

    async def _bounds(self, project: Project) -> list[_Bound]:
        bounds = []
        if project.quota.workers is not None:
            bounds.append(_Bound([project.number], project.quota.workers, False))
        most = (await self._tenants.organization(project.organization)).ceiling.workers
        if most is not None:
            siblings = await self._tenants.projects_of(project.organization)
            bounds.append(_Bound([one.number for one in siblings], most, True))
        return bounds

    async def _check(self, bounds: Sequence[_Bound]) -> None:
        for bound in bounds:
            leases = await self._leases(bound.projects)
            if len(leases) >= bound.most:
                raise bound.refusal(leases)

    async def _leases(self, projects: Sequence[int]) -> list[float]:
        """How many seconds are left of each."""
        now = await self._engine.now()
        left = [
            (one.lease_until - now).total_seconds() for one in await self._engine.workers(projects)
        ]
        return [seconds for seconds in left if seconds > 0]
