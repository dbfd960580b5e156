"""Queues, workers and assignments by name and in pages."""

from collections.abc import Collection, Sequence

import asyncpg

from taskforge.domain.assignment import Assignment
from taskforge.domain.name_pages import AssignmentPage, AssignmentPlace, Listed, NamePage, NamePlace
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
from taskforge.storage.assignment_walks import AssignmentWalk, Found
from taskforge.storage.name_walks import NameWalk
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import identifier_in
from taskforge.storage.postgres.connections import PostgresConnections


class PostgresDirectory:
    def __init__(
        self, connections: PostgresConnections, heartbeat_timeout_seconds: float | None
    ) -> None:
        self._connections = connections
        self._heartbeat_timeout = heartbeat_timeout_seconds

    async def list_queues(self, projects: Sequence[int], page: NamePage) -> Listed[Queue]:
        walk: NameWalk[Queue] = NameWalk(
            projects, page, lambda queue: NamePlace(queue.project, queue.name)
        )
        pattern = _like(page.name)
        async with self._connections.reading(projects) as connection:
            for stretch in walk.stretches():
                rows = await connection.fetch(
                    self._connections.sql("queues_by_name"),
                    *(stretch.project, stretch.behind, stretch.least, stretch.below),
                    *(stretch.rows, pattern, stretch.most),
                )
                walk.take(
                    stretch,
                    [codec.queue(row) for row in rows if row["number"] is not None],
                    rows[0]["walked"],
                    NamePlace(stretch.project, rows[0]["stopped"] or ""),
                )
        return walk.slice()

    async def find_queues(self, projects: Sequence[int], name: str) -> list[Queue]:
        rows = await self._connections.read(
            projects, "find_queues", list(projects), name, identifier_in(name)
        )
        return [codec.queue(row) for row in rows]

    async def name_queues(self, numbers: Collection[int]) -> dict[int, str]:
        rows = await self._connections.fetch("names_of_queues", list(numbers))
        return {row["number"]: row["name"] for row in rows}

    async def count_queues(self, projects: Sequence[int], most: int) -> int:
        rows = await self._connections.fetch("count_queues", list(projects), most)
        return int(rows[0][0])

    async def list_workers(self, projects: Sequence[int], page: NamePage) -> Listed[Worker]:
        walk: NameWalk[Worker] = NameWalk(
            projects,
            page,
            lambda worker: NamePlace(worker.project, worker.name, worker.incarnation),
        )
        pattern = _like(page.name)
        async with self._connections.reading(projects) as connection:
            for stretch in walk.stretches():
                rows = await connection.fetch(
                    self._connections.sql("workers_by_name"),
                    *(stretch.project, stretch.behind, stretch.behind_last),
                    *(stretch.least, stretch.below, stretch.rows, pattern, stretch.most),
                    self._connections.bound_now(),
                )
                walked, name, incarnation = tuple(rows[0])[:3]
                walk.take(
                    stretch,
                    [self._worker(row) for row in rows if row["id"] is not None],
                    walked,
                    NamePlace(stretch.project, name, incarnation) if walked else NamePlace(0),
                )
        return walk.slice()

    async def find_workers(self, projects: Sequence[int], name: str) -> list[Worker]:
        rows = await self._connections.read(
            projects,
            "find_workers",
            *(list(projects), name, identifier_in(name), self._connections.bound_now()),
        )
        workers = [self._worker(row) for row in rows]
        return sorted(workers, key=lambda worker: worker.name != name)

    def _worker(self, row: asyncpg.Record) -> Worker:
        return codec.worker(row, row["now"], self._heartbeat_timeout)

    async def list_assignments(
        self, projects: Sequence[int], page: AssignmentPage
    ) -> Listed[Assignment]:
        walk = AssignmentWalk(projects, page)
        behind = (walk.start.queue, walk.start.worker)
        workers = list(page.workers) or None
        async with self._connections.reading(projects) as connection:
            if page.queues:
                rows = await connection.fetch(
                    self._connections.sql("assignments_of_queues"),
                    *(list(projects), list(page.queues), workers, *behind, page.limit),
                )
                walk.take([_found(row) for row in rows])
            elif workers:
                rows = await connection.fetch(
                    self._connections.sql("assignments_of_workers"),
                    *(list(projects), workers, *behind, page.limit),
                )
                walk.take([_found(row) for row in rows])
            else:
                for start, rows_wanted in walk.stretches():
                    rows = await connection.fetch(
                        self._connections.sql("assignments_page"),
                        *(start.project, start.queue, start.worker, rows_wanted),
                    )
                    walk.take([_found(row, is_live=row["is_live"]) for row in rows])
        return walk.slice()


def _found(row: asyncpg.Record, *, is_live: bool = True) -> Found:
    place = AssignmentPlace(row["project"], row["queue"], row["worker"])
    return codec.assignment(row) if is_live else None, place


def _like(name: str | None) -> str:
    """The pattern of a page as `like` has it."""
    if name is None:
        return "%"
    for letter in "\\%_":
        name = name.replace(letter, "\\" + letter)
    return name.replace("*", "%")
