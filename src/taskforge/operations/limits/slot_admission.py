"""Jobs that schedules make are new jobs: a slot is refused where its project's quota, or the
ceiling of its organization, has no room for its job."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.firing import Firing, refused_firing
from taskforge.domain.tenancy import CeilingReached, QuotaExceeded
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.operations.limits.ceilings import Ceilings
from taskforge.operations.limits.quotas import Quotas
from taskforge.ports.engine import Engine
from taskforge.storage.records.kinds import RecordKinds


class SlotAdmission:
    def __init__(self, quotas: Quotas, tenants: Tenants) -> None:
        self._quotas = quotas
        self._tenants = tenants

    @classmethod
    def of_engine(cls, engine: Engine) -> Self:
        records = RecordKinds(engine)
        tenants = Tenants(records)
        ceilings = Ceilings(records.ceiling_usage, records.stored_bytes, tenants)
        return cls(Quotas(engine, records.quota_usage, tenants, ceilings), tenants)

    @asynccontextmanager
    async def admit(self, firings: Sequence[Firing]) -> AsyncIterator[list[Firing]]:
        """The firings, with those refused for which there is no room; the rest of them hold it for
        as long as the block takes."""
        async with AsyncExitStack() as rooms:
            yield [await self._admit(firing, rooms) for firing in firings]

    async def _admit(self, firing: Firing, rooms: AsyncExitStack) -> Firing:
        if not firing.jobs:
            return firing
        try:
            project = await self._tenants.numbered(firing.project)
        except NotFound:
            return firing  # its store knows better
        if not await self._quotas.limits(project):
            return firing
        size = sum(len(job.payload) for job in firing.jobs)
        try:
            await rooms.enter_async_context(self._quotas.room(project, len(firing.jobs), size))
        except (CeilingReached, QuotaExceeded, Invalid) as error:
            return refused_firing(firing, str(error))
        return firing
