"""The PostgreSQL engine: PostgreSQL 15 to 18 through asyncpg."""

import contextlib
from collections.abc import Callable
from typing import Any

from taskforge.domain.audit import Note
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.queue import DeleteQueue, Queue, QueueChange
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.storage.directory import home_of
from taskforge.storage.postgres import partitions
from taskforge.storage.postgres.cabinet import Cabinet
from taskforge.storage.postgres.inserter import Inserter
from taskforge.storage.postgres.keeper import Keeper


class PostgresEngine(Inserter, Keeper, Cabinet):
    """Implements the protocols `Engine`, `Transactional` and `Cabinet` of `taskforge.storage`.

    Each base class is one role, in a file of its own."""

    def __init__(self, *arguments: Any, project: str = "default", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._project = project
        self.home = FIRST_PROJECT

    async def open(self, *, migrate: bool = True) -> None:
        await super().open(migrate=migrate)
        try:
            self.home = await home_of(self, self._project)
        except BaseException:
            await self.close()
            raise
        if self.bound_now() is None:
            # A role that may not make them leaves it to others; until one does, jobs go to the partition for all else.
            with contextlib.suppress(StoreUnavailable):
                await partitions.make_ahead(self, await self.now())

    async def change_queue(self, project: int, change: QueueChange, note: Note | None = None) -> Queue:
        queue = await super().change_queue(project, change, note)
        if isinstance(change, DeleteQueue):
            await self.cancel_deleted(await self.newest_catalog(), 1_000)
        return queue

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self.signals.on_work(wake)
