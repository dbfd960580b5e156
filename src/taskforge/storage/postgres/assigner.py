"""Assigns workers to queues. Every change raises the catalog's version, because it changes what workers may take."""

from collections.abc import Sequence

from taskforge.domain import trail
from taskforge.domain.assignment import Assign, Assignment, AssignmentChange, check_assignment, plan_assignment
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.storage.postgres.registrar import Registrar


class Assigner(Registrar):
    async def change_assignment(self, project: int, change: AssignmentChange, note: Note | None = None) -> Assignment:
        check_assignment(change)
        key = (change.queue, change.worker)
        try:
            async with self.transaction() as connection:
                # As for queues, the catalog's row is the lock: what is checked here cannot change before the commit.
                await self.raise_version(connection)
                catalog = await self.read_catalog(connection)
                queue = catalog.queue_with_id(project, change.queue)
                name: str | None = await connection.fetchval(self.sql("worker_name"), change.worker, project)
                # What was assigned once can be changed and removed when the worker is long forgotten.
                if name is None and isinstance(change, Assign):
                    raise NotFound("worker", str(change.worker))
                before = catalog.assignments.get(key)
                planned = plan_assignment(change, before)
                row = (queue.number, change.worker)
                if planned is None:
                    await connection.execute(self.sql("unassign"), *row)
                else:
                    await connection.execute(self.sql("assign"), *row, project, *planned, self.bound_now())
                after = (await self.read_catalog(connection)).assignments.get(key)
                if note is not None:
                    await self.enter(connection, [trail.assignment_changed(note, queue, name or "", before, after)])
        finally:
            self.forget_catalog()
        self.signals.send()
        changed = after or before
        assert changed is not None
        return changed

    async def assignments(self, projects: Sequence[int]) -> list[Assignment]:
        async with self.reading(projects) as connection:
            return (await self.read_catalog(connection)).assignments_of(projects)
