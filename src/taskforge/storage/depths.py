"""How many jobs stand in the places of a project: counted each time while they are few, remembered
where they are many."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

COUNTED = 10_000  # rows of a place that a question counts
READY, WAITING, RUNNING = range(3)
NAMES = ("pending", "scheduled", "processing")
_REST = 20  # times as long as a count of many took, until the next: a twentieth of the time
_REMEMBERED = 1_000  # projects


class PlaceCount(NamedTuple):
    """Jobs of one queue in one place."""

    place: int
    project: int
    queue: int
    jobs: int
    turn: int | None  # of the first that is ready


class Depth(NamedTuple):
    """The counts of one project."""

    held: list[PlaceCount]
    counted_at: datetime | None  # None: just now


def overflowing(held: Iterable[PlaceCount], projects: Iterable[int]) -> dict[int, set[int]]:
    """By project the places that hold more than was counted. Ready jobs are counted project by
    project, the other places are one for all."""
    ready: dict[int, int] = {}
    others = {WAITING: 0, RUNNING: 0}
    for one in held:
        if one.place == READY:
            ready[one.project] = ready.get(one.project, 0) + one.jobs
        else:
            others[one.place] += one.jobs
    full = {place for place, count in others.items() if count > COUNTED}
    return {
        project: places
        for project in projects
        if (places := full | ({READY} if ready.get(project, 0) > COUNTED else set()))
    }


class Depths:
    """Remembers counts of many. Whoever asks for one that is old gets it, and it is counted anew
    meanwhile; only the first to ask waits."""

    def __init__(self, count: Callable[[int], Awaitable[Depth]]) -> None:
        self._count = count
        self._known: dict[int, tuple[Depth, float, float]] = {}  # when it began, what it took
        self._under_way: dict[int, asyncio.Task[Depth]] = {}

    async def of(self, project: int) -> Depth:
        known = self._known.get(project)
        if known is None:
            return await asyncio.shield(self._begin(project))
        depth, began, took = known
        if time.monotonic() - began > _REST * took:
            self._begin(project)
        return depth

    def _begin(self, project: int) -> asyncio.Task[Depth]:
        task = self._under_way.get(project)
        if task is None:
            task = self._under_way[project] = asyncio.create_task(self._count_anew(project))
            task.add_done_callback(lambda done: self._end(project, done))
        return task

    def _end(self, project: int, task: asyncio.Task[Depth]) -> None:
        self._under_way.pop(project, None)
        if not task.cancelled():
            task.exception()  # whoever waited has it; the next who asks tries again

    async def _count_anew(self, project: int) -> Depth:
        began = time.monotonic()
        depth = await self._count(project)
        self._known.pop(project, None)
        self._known[project] = (depth, began, time.monotonic() - began)
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return depth

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settle(
    held: list[PlaceCount], projects: Iterable[int], of: Callable[[int], Awaitable[Depth]]
) -> tuple[list[PlaceCount], Mapping[int, datetime | None]]:
    """The counts that hold for each project, and for some when they were made: where a place holds
    more than was counted, what `of` says of the project is taken instead."""
    full = overflowing(held, projects)
    settled = [one for one in held if one.place not in full.get(one.project, ())]
    made: dict[int, datetime | None] = {}
    for project, places in full.items():
        depth = await of(project)
        made[project] = depth.counted_at
        settled += [one for one in depth.held if one.place in places]
    return settled, made
