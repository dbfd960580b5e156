"""Queues that the code declares: made, or brought to what it says, when the application connects or
next uses its connection."""

import logging
from contextlib import suppress
from typing import Any

import msgspec

from taskforge.domain.access import Forbidden
from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.queue import CreateQueue, Queue, QueueSettings, UpdateQueue
from taskforge.domain.schedule import NewSchedule
from taskforge.ports.engine import AnyEngine
from taskforge.sdk.schedules import DeclaredSchedules

logger = logging.getLogger("taskforge.sdk")
TRIES = 5  # another process may be declaring the same at this moment


class Declared(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    priority: int | None = None
    dead_letter_queue: str | None = None
    settings: dict[str, Any] = {}


class DeclaredQueues:
    def __init__(self) -> None:
        self._queues: dict[str, Declared] = {}
        self._numbers: dict[str, int] = {}
        self.schedules = DeclaredSchedules()
        self.count = 0  # of declarations so far

    def add(self, queue: Declared) -> None:
        QueueSettings.parse(queue.settings)
        if queue.dead_letter_queue is not None and queue.name in self._chain(
            queue.dead_letter_queue
        ):
            expected = "use a queue whose own dead letters end elsewhere"
            raise Invalid("dead_letter_queue", f"leads from {queue.name!r} back to it", expected)
        if queue.dead_letter_queue is not None:
            self.mention(queue.dead_letter_queue)
        self._declare(queue)

    def add_schedule(self, schedule: NewSchedule) -> None:
        self.mention(schedule.job.queue)
        self.schedules.add(schedule)
        self.count += 1

    def mention(self, name: str) -> None:
        """A queue that must exist, whatever its settings are."""
        if name not in self._queues:
            self._declare(Declared(name))

    def _declare(self, queue: Declared) -> None:
        self._queues[queue.name] = queue
        self._numbers[queue.name] = self.count + 1
        self.count += 1  # last: whoever sees the new count finds all that it counts

    def _chain(self, name: str | None) -> list[str]:
        """A queue, where its dead letters go, and where those of that one go."""
        chain = []
        while name is not None:
            chain.append(name)
            name = self._queues[name].dead_letter_queue if name in self._queues else None
        return chain

    async def bring_about(self, engine: AnyEngine, project: int, since: int = 0) -> int:
        """What was declared after the first `since` declarations. Returns how many there are now,
        all of them brought about."""
        count = self.count
        new = [queue for name, queue in list(self._queues.items()) if self._numbers[name] > since]
        # Dead letter queues first: others point to them.
        try:
            for declared in sorted(new, key=lambda one: len(self._chain(one.name))):
                await _bring_about(engine, project, declared)
        except Forbidden as error:
            # A worker's key, say: it works on what is there.
            logger.info("the declared queues are left as they are: %s", error)
        await self.schedules.bring_about(engine, project)
        return count


async def _bring_about(engine: AnyEngine, project: int, declared: Declared) -> None:
    for _ in range(TRIES):
        known = {
            queue.name: queue
            for name in (declared.name, declared.dead_letter_queue)
            if name is not None
            for queue in await engine.directory.find_queues([project], name)
        }
        with suppress(Conflict):
            change = _change(declared, known)
            if change is not None:
                await engine.change_queue(project, change)
            return


def _change(declared: Declared, known: dict[str, Queue]) -> CreateQueue | UpdateQueue | None:
    """What it takes to bring a queue to what the code declares; None when it is there already."""
    settings = dict(declared.settings)
    if declared.dead_letter_queue is not None:
        target = known.get(declared.dead_letter_queue)
        if target is None:
            raise Invalid(
                "dead_letter_queue",
                f"{declared.dead_letter_queue!r} does not exist",
                "use a queue of the same project",
            )
        settings["dead_letter_queue_id"] = target.id
    queue = known.get(declared.name)
    if queue is None:
        return CreateQueue(
            name=declared.name,
            description=declared.description or "",
            priority=declared.priority or 0,
            settings=QueueSettings.parse(settings),
        )
    merged = QueueSettings.parse(msgspec.structs.asdict(queue.settings) | settings)
    same = (
        merged == queue.settings
        and declared.priority in (None, queue.priority)
        and declared.description in (None, queue.description)
    )
    if same:
        return None
    return UpdateQueue(
        queue=queue.id,
        description=declared.description,
        priority=declared.priority,
        settings=merged,
    )
