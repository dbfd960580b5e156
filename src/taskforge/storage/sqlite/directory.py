"""Queues, workers and assignments by name and in pages."""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from taskforge.domain.assignment import Assignment
from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.name_pages import AssignmentPage, AssignmentPlace, Listed, NamePage, NamePlace
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
from taskforge.storage.assignment_walks import AssignmentWalk, Found
from taskforge.storage.name_walks import NameWalk
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.readers import Readers
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.workers import list_workers


class SqliteDirectory:
    def __init__(
        self,
        readers: Readers,
        clock: Callable[[], datetime],
        heartbeat_timeout_seconds: float | None,
    ) -> None:
        self._readers = readers
        self._clock = clock
        self._heartbeat_timeout = heartbeat_timeout_seconds

    async def list_queues(self, projects: Sequence[int], page: NamePage) -> Listed[Queue]:
        return await self._readers.read(lambda seen: _list_queues(seen, projects, page))

    async def find_queues(self, projects: Sequence[int], name: str) -> list[Queue]:
        values = (codec.json(list(projects)), name, codec.identifier_bytes(name))
        return await self._readers.read(
            lambda seen: [codec.queue(row) for row in seen.execute(sql("find_queues"), values)]
        )

    async def name_queues(self, numbers: Collection[int]) -> dict[int, str]:
        values = (codec.json(list(numbers)),)
        return await self._readers.read(
            lambda seen: dict(seen.execute(sql("names_of_queues"), values).fetchall())
        )

    async def count_queues(self, projects: Sequence[int], most: int) -> int:
        values = (codec.json(list(projects)), most)
        found = await self._readers.read(
            lambda seen: seen.execute(sql("count_queues"), values).fetchone()
        )
        return int(found[0])

    async def all_workers(self, projects: Sequence[int]) -> list[Worker]:
        return self._judged(
            await self._readers.read(
                lambda seen: list_workers(seen.connection, projects, seen.now, seen.steady)
            )
        )

    async def list_workers(self, projects: Sequence[int], page: NamePage) -> Listed[Worker]:
        found = await self._readers.read(lambda seen: _list_workers(seen, projects, page))
        return Listed(self._judged(found.items), found.cursor)

    async def find_workers(self, projects: Sequence[int], name: str) -> list[Worker]:
        values = (codec.json(list(projects)), name, codec.identifier_bytes(name))

        def find(seen: ReadSnapshot) -> list[Worker]:
            rows = _rows(seen, sql("find_workers"), (*values, seen.steady))
            return [codec.worker(row, seen.now, seen.steady) for row in rows]

        workers = self._judged(await self._readers.read(find))
        return sorted(workers, key=lambda worker: worker.name != name)

    def _judged(self, workers: list[Worker]) -> list[Worker]:
        if self._heartbeat_timeout is None:
            return workers
        now = self._clock()
        return [worker.judged(now, self._heartbeat_timeout) for worker in workers]

    async def list_assignments(
        self, projects: Sequence[int], page: AssignmentPage
    ) -> Listed[Assignment]:
        return await self._readers.read(lambda seen: _list_assignments(seen, projects, page))


def _list_queues(seen: ReadSnapshot, projects: Sequence[int], page: NamePage) -> Listed[Queue]:
    walk: NameWalk[Queue] = NameWalk(
        projects, page, lambda queue: NamePlace(queue.project, queue.name)
    )
    pattern = _glob(page.name)
    for stretch in walk.stretches():
        rows = seen.execute(
            sql("queues_by_name"),
            (
                *(stretch.project, stretch.behind, stretch.least, stretch.below),
                *(stretch.rows, pattern, stretch.most),
            ),
        ).fetchall()
        *_, walked, stopped = rows[0]
        walk.take(
            stretch,
            [codec.queue(row) for row in rows if row[0] is not None],
            walked,
            NamePlace(stretch.project, stopped or ""),
        )
    return walk.slice()


def _list_workers(seen: ReadSnapshot, projects: Sequence[int], page: NamePage) -> Listed[Worker]:
    walk: NameWalk[Worker] = NameWalk(
        projects, page, lambda worker: NamePlace(worker.project, worker.name, worker.incarnation)
    )
    pattern = _glob(page.name)
    for stretch in walk.stretches():
        rows = _rows(
            seen,
            sql("workers_by_name"),
            (
                *(stretch.project, stretch.behind, stretch.behind_last.bytes),
                *(stretch.least, stretch.below, stretch.rows, pattern, stretch.most),
                seen.steady,
            ),
        )
        walked, name, incarnation = tuple(rows[0])[:3]
        walk.take(
            stretch,
            [codec.worker(row, seen.now, seen.steady) for row in rows if row["id"] is not None],
            walked,
            NamePlace(stretch.project, name, uuid_from_bytes(incarnation))
            if walked
            else NamePlace(0),
        )
    return walk.slice()


def _list_assignments(
    seen: ReadSnapshot, projects: Sequence[int], page: AssignmentPage
) -> Listed[Assignment]:
    walk = AssignmentWalk(projects, page)
    owners = codec.json(list(projects))
    queues, workers = codec.ids(page.queues), codec.ids(page.workers)
    positions = codec.positions(len(page.workers)) if page.workers else None
    behind = (walk.start.queue, walk.start.worker.bytes)
    if page.queues:
        named = (owners, queues, codec.positions(len(page.queues)), workers, positions)
        rows = seen.execute(sql("assignments_of_queues"), (*named, *behind, page.limit))
        walk.take([_found(row) for row in rows])
    elif page.workers:
        rows = seen.execute(
            sql("assignments_of_workers"), (owners, workers, positions, *behind, page.limit)
        )
        walk.take([_found(row) for row in rows])
    else:
        for start, limit in walk.stretches():
            values = (start.project, start.queue, start.worker.bytes, limit)
            rows = seen.execute(sql("assignments_page"), values)
            walk.take([_found(row, is_live=row[8]) for row in rows])
    return walk.slice()


def _found(row: tuple[Any, ...], *, is_live: bool = True) -> Found:
    place = AssignmentPlace(row[2], row[7], uuid_from_bytes(row[1]))
    return codec.assignment(row) if is_live else None, place


def _rows(seen: ReadSnapshot, text: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
    cursor = seen.connection.cursor()
    cursor.row_factory = sqlite3.Row
    return cursor.execute(text, values).fetchall()


def _glob(name: str | None) -> str:
    """The pattern of a page as `glob` has it."""
    if name is None:
        return "*"
    return name.replace("[", "[[]").replace("?", "[?]")
