"""Queues from Python: `forge.queues`."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from taskforge.domain.name_pages import Listed, NamePage
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import CreateQueue, DeleteQueue, Queue, QueueSettings, UpdateQueue
from taskforge.operations import directory
from taskforge.operations.naming import find_queue

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class AppQueues:
    """`forge.queues`: what the REST API has of them too, by name or id. What the code declares is
    for `forge.queue`."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def all(self, name: str | None = None) -> list[Queue]:
        """Every one, or those whose name fits: `mail*` begins so, `*mail*` has it somewhere."""
        engine = await self._app.engine()
        return [queue async for queue in directory.every_queue(engine, [engine.home], name)]

    async def page(
        self, *, name: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Listed[Queue]:
        """So many of them by name, behind where `cursor` says that the page before ended. A page
        may be short; only one without a cursor is the last."""
        engine = await self._app.engine()
        wanted = NamePage(name=name, limit=limit, cursor=cursor)
        return await directory.list_queues(engine, [engine.home], wanted)

    async def get(self, name: UUID | str) -> Queue:
        return await find_queue(await self._app.engine(), str(name))

    async def create(
        self,
        name: str,
        *,
        description: str = "",
        priority: int = 0,
        is_active: bool = True,
        **settings: Any,
    ) -> Queue:
        """`settings`: those of a queue, such as max_concurrent_jobs."""
        engine = await self._app.engine()
        change = CreateQueue(
            name=name,
            description=description,
            priority=priority,
            is_active=is_active,
            settings=QueueSettings.parse(settings),
        )
        return await engine.change_queue(engine.home, change)

    async def edit(
        self,
        queue: UUID | str,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        priority: int | None = None,
        **settings: Any,
    ) -> Queue:
        """What is not named stays; a setting of None goes back to its default."""
        engine, old = await self._app.engine(), await self.get(queue)
        merged = {**msgspec.to_builtins(old.settings), **settings}
        given = {name: value for name, value in merged.items() if value is not None}
        change = UpdateQueue(
            queue=old.id,
            name=name,
            description=description,
            priority=priority,
            settings=QueueSettings.parse(given) if settings else None,
            # settings were merged with what was read
            expected_version=old.version if settings else None,
        )
        return await engine.change_queue(engine.home, change)

    async def pause(self, queue: UUID | str) -> Queue:
        """Start no more of its jobs."""
        return await self._set_active(queue, is_active=False)

    async def resume(self, queue: UUID | str) -> Queue:
        return await self._set_active(queue, is_active=True)

    async def delete(self, queue: UUID | str) -> None:
        """What waits in it is cancelled, its history stays. Refused while its jobs run."""
        engine, old = await self._app.engine(), await self.get(queue)
        await engine.change_queue(engine.home, DeleteQueue(queue=old.id))

    async def stats(self, queue: UUID | str) -> QueueStats:
        """How many of its jobs are in each status, and how long the oldest one waits."""
        return (await self._app.jobs.stats(queue))[0]

    async def _set_active(self, queue: UUID | str, *, is_active: bool) -> Queue:
        engine, old = await self._app.engine(), await self.get(queue)
        return await engine.change_queue(
            engine.home, UpdateQueue(queue=old.id, is_active=is_active)
        )
