"""Queues and workers by name and in pages: `mail` is the one of this name, `mail*` all whose names
begin so."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from taskforge.domain.errors import NotFound, nearest
from taskforge.domain.name_pages import Listed, NamePage, check_name_page
from taskforge.domain.query import MAX_PAGE
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
from taskforge.ports.engine import AnyEngine


async def list_queues(engine: AnyEngine, projects: Sequence[int], page: NamePage) -> Listed[Queue]:
    check_name_page(page)
    if page.name is None or "*" in page.name:
        return await engine.directory.list_queues(projects, page)
    found = await engine.directory.find_queues(projects, page.name)
    if not found:
        raise await no_queue(engine, projects, page.name)
    return Listed(found)


async def list_workers(
    engine: AnyEngine, projects: Sequence[int], page: NamePage
) -> Listed[Worker]:
    check_name_page(page)
    if page.name is None or "*" in page.name:
        return await engine.directory.list_workers(projects, page)
    found = await engine.directory.find_workers(projects, page.name)
    if not found:
        raise await no_worker(engine, projects, page.name)
    return Listed(found)


async def every_queue(
    engine: AnyEngine, projects: Sequence[int], name: str | None = None
) -> AsyncIterator[Queue]:
    """Those whose names fit, page by page."""
    page = NamePage(name=name, limit=MAX_PAGE)
    while True:
        found = await list_queues(engine, projects, page)
        for queue in found.items:
            yield queue
        if found.cursor is None:
            return
        page = msgspec.structs.replace(page, cursor=found.cursor)


async def every_worker(
    engine: AnyEngine, projects: Sequence[int], name: str | None = None
) -> AsyncIterator[Worker]:
    """Those whose names fit, page by page."""
    page = NamePage(name=name, limit=MAX_PAGE)
    while True:
        found = await list_workers(engine, projects, page)
        for worker in found.items:
            yield worker
        if found.cursor is None:
            return
        page = msgspec.structs.replace(page, cursor=found.cursor)


async def no_queue(engine: AnyEngine, projects: Sequence[int], name: str) -> NotFound:
    """Tells the nearest among the first of them."""
    known = await engine.directory.list_queues(projects, NamePage(limit=MAX_PAGE))
    return NotFound("queue", name, nearest=nearest(name, [queue.name for queue in known.items]))


async def no_worker(engine: AnyEngine, projects: Sequence[int], name: str) -> NotFound:
    """Tells the nearest among the first of them."""
    known = await engine.directory.list_workers(projects, NamePage(limit=MAX_PAGE))
    return NotFound("worker", name, nearest=nearest(name, [worker.name for worker in known.items]))


async def check_queue(engine: AnyEngine, projects: Sequence[int], name: str) -> None:
    """Whether one of them has a queue of this name, or with this id."""
    if not await engine.directory.find_queues(projects, name):
        raise await no_queue(engine, projects, name)
