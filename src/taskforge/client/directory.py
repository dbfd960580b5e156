"""Queues, workers and assignments of a server elsewhere, by name and in pages."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec

from taskforge.client.json_shapes import AssignmentShape, QueueShape, WorkerShape
from taskforge.client.requests import Request, get, reader
from taskforge.client.transport import Transport
from taskforge.domain.assignment import Assignment
from taskforge.domain.errors import NotFound
from taskforge.domain.name_pages import AssignmentPage, Listed, NamePage
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker

T = TypeVar("T")
P = TypeVar("P", NamePage, AssignmentPage)
PAGE = 1_000


class _Queues(msgspec.Struct):
    items: list[QueueShape]
    next_cursor: str | None = None


class _Workers(msgspec.Struct):
    items: list[WorkerShape]
    next_cursor: str | None = None


class _Assignments(msgspec.Struct):
    items: list[AssignmentShape]
    next_cursor: str | None = None


_queue, _queues = reader(QueueShape), reader(_Queues)
_workers, _assignments = reader(_Workers), reader(_Assignments)


def queues(page: NamePage) -> Request[Listed[Queue]]:
    def read(body: bytes) -> Listed[Queue]:
        found = _queues(body)
        return Listed([one.to_domain() for one in found.items], found.next_cursor)

    return get("/queues", read, name=page.name, limit=page.limit, cursor=page.cursor)


def queue_named(name: str) -> Request[Queue]:
    return get(f"/queues/{quote(name, safe='')}", lambda body: _queue(body).to_domain())


def workers(page: NamePage) -> Request[Listed[Worker]]:
    def read(body: bytes) -> Listed[Worker]:
        found = _workers(body)
        return Listed([one.to_domain() for one in found.items], found.next_cursor)

    return get("/workers", read, name=page.name, limit=page.limit, cursor=page.cursor)


def assignments(page: AssignmentPage) -> Request[Listed[Assignment]]:
    def read(body: bytes) -> Listed[Assignment]:
        found = _assignments(body)
        return Listed([one.to_domain() for one in found.items], found.next_cursor)

    return get(
        "/assignments",
        read,
        queue_id=page.queues,
        worker_id=page.workers,
        limit=page.limit,
        cursor=page.cursor,
    )


class RemoteDirectory:
    """Implements `ports.directory.Directory`. Which project, the key decides."""

    def __init__(self, transport: Callable[[], Transport]) -> None:
        self._transport = transport

    async def list_queues(self, projects: Sequence[int], page: NamePage) -> Listed[Queue]:
        return await self._transport().send(queues(page))

    async def find_queues(self, projects: Sequence[int], name: str) -> list[Queue]:
        try:
            if "*" in name:  # in a list it would stand for any letters
                return [await self._transport().send(queue_named(name))]
            return (await self.list_queues(projects, NamePage(name=name))).items
        except NotFound:
            return []

    async def list_workers(self, projects: Sequence[int], page: NamePage) -> Listed[Worker]:
        return await self._transport().send(workers(page))

    async def find_workers(self, projects: Sequence[int], name: str) -> list[Worker]:
        try:
            found = await self._every(self.list_workers, NamePage(name=name, limit=PAGE))
        except NotFound:
            return []
        return [one for one in found if name in (one.name, str(one.id), str(one.incarnation))]

    async def list_assignments(
        self, projects: Sequence[int], page: AssignmentPage
    ) -> Listed[Assignment]:
        return await self._transport().send(assignments(page))

    # --- All of them, page by page ---

    async def every_queue(self) -> list[Queue]:
        return await self._every(self.list_queues, NamePage(limit=PAGE))

    async def every_worker(self) -> list[Worker]:
        return await self._every(self.list_workers, NamePage(limit=PAGE))

    async def every_assignment(self) -> list[Assignment]:
        return await self._every(self.list_assignments, AssignmentPage(limit=PAGE))

    async def _every(
        self, read: Callable[[Sequence[int], P], Awaitable[Listed[T]]], page: P
    ) -> list[T]:
        found: list[T] = []
        while True:
            part = await read((), page)
            found += part.items
            if part.cursor is None:
                return found
            page = msgspec.structs.replace(page, cursor=part.cursor)
