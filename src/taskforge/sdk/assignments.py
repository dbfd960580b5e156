"""Assignments from Python: `forge.assignments`."""

from typing import TYPE_CHECKING
from uuid import UUID

from taskforge.domain.assignment import Assign, Assignment, Reassign, Unassign
from taskforge.domain.name_pages import NamePage
from taskforge.domain.queue import Queue
from taskforge.operations import assignments as operations
from taskforge.operations.assignments import AssignmentMatrix, Load
from taskforge.operations.naming import find_queue, find_worker

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class AppAssignments:
    """`forge.assignments`: which workers serve which queues, as the REST API has it too. Queues and
    workers are named by name or id."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def all(
        self, queue: UUID | str | None = None, worker: UUID | str | None = None
    ) -> list[Assignment]:
        """Of a queue, of a worker, or all."""
        engine = await self._app.engine()
        served = None if queue is None else (await find_queue(engine, str(queue))).id
        serving = None if worker is None else (await find_worker(engine, str(worker))).id
        return await operations.list_assignments(engine, [engine.home], served, serving)

    async def get(self, queue: UUID | str, worker: UUID | str) -> Assignment:
        engine = await self._app.engine()
        served = await find_queue(engine, str(queue))
        serving = await find_worker(engine, str(worker))
        return await operations.find_assignment(engine, served, serving.id, served.name)

    async def create(
        self, queue: UUID | str, worker: UUID | str, weight: int = 1, *, is_active: bool = True
    ) -> Assignment:
        """From then on the queue is served by its actively assigned workers alone. `weight`: 1 to
        100."""
        served, serving = await self._pair(queue, worker)
        change = Assign(queue=served, worker=serving, weight=weight, is_active=is_active)
        return await self._change(change)

    async def edit(
        self,
        queue: UUID | str,
        worker: UUID | str,
        *,
        weight: int | None = None,
        is_active: bool | None = None,
    ) -> Assignment:
        """What is not named stays."""
        served, serving = await self._pair(queue, worker)
        change = Reassign(queue=served, worker=serving, weight=weight, is_active=is_active)
        return await self._change(change)

    async def delete(self, queue: UUID | str, worker: UUID | str) -> None:
        served, serving = await self._pair(queue, worker)
        await self._change(Unassign(queue=served, worker=serving))

    async def matrix(self) -> AssignmentMatrix:
        """Every queue, every worker, and the assignments between them."""
        engine = await self._app.engine()
        return await operations.read_matrix(engine, [engine.home])

    async def matrix_part(
        self, queues: NamePage | None = None, workers: NamePage | None = None
    ) -> AssignmentMatrix:
        """Some queues by some workers, at most 100 of each, and where to go on with either."""
        engine = await self._app.engine()
        return await operations.read_matrix_part(
            engine, [engine.home], queues or NamePage(), workers or NamePage()
        )

    async def workers_by_load(self, queue: UUID | str) -> list[Load]:
        """The workers that may take a queue's jobs now, lowest load first."""
        engine = await self._app.engine()
        return await operations.rank_workers(engine, await find_queue(engine, str(queue)))

    async def queues_of(self, worker: UUID | str) -> list[Queue]:
        """The queues whose jobs a worker may take."""
        engine = await self._app.engine()
        return await operations.list_served_queues(engine, await find_worker(engine, str(worker)))

    async def _pair(self, queue: UUID | str, worker: UUID | str) -> tuple[UUID, UUID]:
        """A worker that is long forgotten is named by its id."""
        engine = await self._app.engine()
        served = (await find_queue(engine, str(queue))).id
        if isinstance(worker, UUID):
            return served, worker
        return served, (await find_worker(engine, worker)).id

    async def _change(self, change: Assign | Reassign | Unassign) -> Assignment:
        engine = await self._app.engine()
        return await operations.change_assignment(engine, engine.home, change)
