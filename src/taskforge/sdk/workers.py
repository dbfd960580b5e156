"""Workers from Python: `forge.workers`."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from taskforge.domain.name_pages import Listed, NamePage
from taskforge.domain.query import WorkerTotals
from taskforge.domain.worker import RegisterWorker, UpdateWorker, Worker, check_worker
from taskforge.operations import directory
from taskforge.operations import workers as operations
from taskforge.operations.naming import find_worker

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class AppWorkers:
    """`forge.workers`: what the REST API has of them too, by name, id or incarnation."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def all(
        self,
        *,
        name: str | None = None,
        worker_type: str | None = None,
        healthy: bool = False,
        heartbeat_timeout_seconds: float | None = None,
    ) -> list[Worker]:
        """Every one, or those whose name fits: `gpu*` begins so, `*gpu*` has it somewhere.
        `healthy` leaves out those that are offline, unwell by their own word, or silent for
        longer than `heartbeat_timeout_seconds`."""
        operations.check_selection(worker_type, healthy, heartbeat_timeout_seconds)
        engine = await self._app.engine()
        return await operations.select_workers(
            engine, [engine.home], worker_type, healthy, heartbeat_timeout_seconds, name
        )

    async def page(
        self, *, name: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Listed[Worker]:
        """So many of them by name, behind where `cursor` says that the page before ended. A page
        may be short; only one without a cursor is the last."""
        engine = await self._app.engine()
        wanted = NamePage(name=name, limit=limit, cursor=cursor)
        return await directory.list_workers(engine, [engine.home], wanted)

    async def get(self, name: UUID | str) -> Worker:
        return await find_worker(await self._app.engine(), str(name))

    async def register(self, name: str, **options: Any) -> Worker:
        """Make a worker known before its process is there. `options`: worker_type, role,
        capabilities, max_concurrent_jobs."""
        engine = await self._app.engine()
        change = RegisterWorker(name=name, **options)
        return await operations.change_worker(engine, engine.home, change)

    async def edit(self, worker: UUID | str, /, **options: Any) -> Worker:
        """What is not named stays. `options`: name, max_concurrent_jobs, capabilities."""
        return await self._update(worker, **options)

    async def drain(self, worker: UUID | str) -> Worker:
        """Let it finish what it has and take no more."""
        return await self._update(worker, drain_mode=True)

    async def undrain(self, worker: UUID | str) -> Worker:
        return await self._update(worker, drain_mode=False)

    async def stats(self, worker: UUID | str) -> WorkerTotals:
        """How its executions ended, in all its lives."""
        engine, found = await self._app.engine(), await self.get(worker)
        return await operations.count_work(engine, found) or WorkerTotals(found.id)

    async def _update(self, worker: UUID | str, **options: Any) -> Worker:
        engine, old = await self._app.engine(), await self.get(worker)
        change = UpdateWorker(worker=old.id, **options)
        check_worker(change)
        return await operations.change_worker(engine, engine.home, change)
