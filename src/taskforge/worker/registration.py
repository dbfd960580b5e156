"""Makes a worker known to its store, one life after the other, and tells it which workers of this
machine have died."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from taskforge.domain.errors import StoreUnavailable, TaskForgeError
from taskforge.domain.retry import Patience
from taskforge.domain.worker import Earlier, NewWorker, Registered
from taskforge.ports.work_source import WorkSource
from taskforge.worker.processes.leave_notes import is_leave_noted, note_leaves
from taskforge.worker.processes.process_id import ProcessId, has_ended

logger = logging.getLogger("taskforge.worker")


class Registration:
    def __init__(
        self, source: WorkSource, describe: Callable[[], NewWorker], lease_seconds: float
    ) -> None:
        self._source = source
        self._describe = describe
        self._lease_seconds = lease_seconds
        self.lives: set[UUID] = set()  # of this worker, that have not left

    async def register(self, stop: asyncio.Event) -> Registered | None:
        """A new life, as soon as the store is there; none once the worker stops."""
        worker, patience = self._describe(), Patience()
        while not stop.is_set():
            try:
                registered = await self._source.register(worker, self._lease_seconds)
                await self.tell_of_the_dead(registered.earlier)
                self.lives.add(registered.incarnation)
            except StoreUnavailable as error:
                logger.debug("cannot register, trying again: %s", error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), patience.wait(error.asked_for))
            else:
                return registered
        return None

    async def tell_of_the_dead(self, earlier: Sequence[Earlier]) -> None:
        """Processes of this machine that were killed together with their lease keepers: nobody else
        can tell before their leases are over, and after that nobody would know that they died."""
        for one in earlier:
            # which lost its lease; as long as jobs of it run on, that is refused
            if one.incarnation in self.lives:
                await self.leave(one.incarnation)
            elif is_leave_noted(one.incarnation):
                logger.info(
                    "worker process %d of this machine stopped while the store was away: its jobs "
                    "go to others, unspent",
                    one.pid,
                )
            elif has_ended(ProcessId(one.pid, one.pid_started)):
                logger.warning(
                    "worker process %d of this machine is gone without having left: its jobs go "
                    "to others",
                    one.pid,
                )
                with contextlib.suppress(TaskForgeError):
                    await self._source.deregister(one.incarnation, died=True)

    async def leave(self, incarnation: UUID) -> None:
        """In order, if the store can hear it."""
        with contextlib.suppress(TaskForgeError):
            await self._source.deregister(incarnation)
            self.lives.discard(incarnation)

    def note_lives_left(self, untold: int) -> None:
        """The store is away, and this process ends: its lives are over in order, and what they held
        goes back unspent. `untold`: outcomes that the store has not taken."""
        if not self.lives:
            return
        note_leaves(self.lives)
        if untold:
            logger.warning(
                "stopped while the store is away: what came of %d %s could not be told; unless it "
                "was stored, they run again, and no attempt is spent",
                untold,
                "job" if untold == 1 else "jobs",
            )
