"""How many queues an organization may have in all its projects."""

import asyncio
from collections import defaultdict

from taskforge.domain.audit import Note
from taskforge.domain.queue import CreateQueue, Queue
from taskforge.domain.tenancy import CeilingReached, Project
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.ports.engine import Engine


class QueueCeilings:
    def __init__(self, engine: Engine, tenants: Tenants) -> None:
        self._engine = engine
        self._tenants = tenants
        self._creating: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def create(self, project: Project, change: CreateQueue, note: Note) -> Queue:
        """As the engine does, where there is room. Servers that create at the same moment may get
        one more in, each."""
        owner = await self._tenants.organization(project.organization)
        most = owner.ceiling.queues
        if most is None:
            return await self._engine.change_queue(project.number, change, note=note)
        siblings = [one.number for one in await self._tenants.projects_of(owner.number)]
        async with self._creating[owner.number]:
            if await self._engine.directory.count_queues(siblings, most) >= most:
                raise CeilingReached("queues", most)
            return await self._engine.change_queue(project.number, change, note=note)
