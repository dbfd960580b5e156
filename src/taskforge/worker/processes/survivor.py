"""What a lease keeper does when its worker is dead: it ends what the worker left running, and its
lease, and rescues its jobs."""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from uuid import UUID

from taskforge.domain.errors import StoreFault, StoreUnavailable, StoreUnsuitable, TaskForgeError
from taskforge.operations.upkeep import SLICE, Upkeep
from taskforge.ports.engine import AnyEngine, is_store
from taskforge.worker.processes.process_id import ProcessId, end_of, kill_group

logger = logging.getLogger("taskforge.worker")
TRY_SECONDS = 600.0  # while the store is away
HURRY_SECONDS = 2.0  # the same once somebody wants us to stop
ONE_TRY_SECONDS = 10.0
ROUNDS, ROUND_SECONDS = 3, 0.2
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.1, 5.0


async def end_children(children: Iterable[ProcessId]) -> None:
    """The processes of process handlers, with what they started. A job must not run in one of them
    and elsewhere."""
    known = list(children)
    for child in known:
        kill_group(child)
    await asyncio.gather(*map(end_of, known))


async def tell_death(
    opened: Callable[[], Awaitable[AnyEngine]],
    incarnation: UUID,
    worker: ProcessId,
    hurry: asyncio.Event,
    *,
    before: Callable[[AnyEngine], Awaitable[None]] | None = None,
) -> bool:
    """End the dead worker's lease and rescue its jobs; where they are behind a server, it does.
    False if the store stayed away. `before`: what is told before that."""
    began, wait, told = time.monotonic(), FIRST_WAIT_SECONDS, False
    while True:
        try:
            async with asyncio.timeout(ONE_TRY_SECONDS):
                engine = await opened()
                if before is not None:
                    await before(engine)
                await engine.deregister(incarnation, died=True)
                await rescue(engine)
        except (StoreUnavailable, StoreUnsuitable, StoreFault, TimeoutError) as error:
            if not told:
                logger.warning(
                    "worker process %d died, which cannot be told yet: %s",
                    worker.pid,
                    str(error) or f"the store gave no answer within {ONE_TRY_SECONDS:g} s",
                )
                _let_go_of_the_terminal()
                told = True
        except TaskForgeError as error:
            logger.warning("worker process %d died, which cannot be told: %s", worker.pid, error)
            return False
        else:
            logger.warning(
                "worker process %d died: its lease is over, its jobs go to others", worker.pid
            )
            return True
        left = began + (HURRY_SECONDS if hurry.is_set() else TRY_SECONDS) - time.monotonic()
        if left <= 0:
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                asyncio.Event().wait() if hurry.is_set() else hurry.wait(), min(left, wait)
            )
        wait = min(LONGEST_WAIT_SECONDS, 2 * wait)


async def rescue(engine: AnyEngine) -> None:
    """Several rounds where engines work side by side: one finds nothing while somebody else looks,
    perhaps a moment too early, and there may be nobody who looks again."""
    if not is_store(engine):
        return
    for left in reversed(range(ROUNDS if engine.side_by_side else 1)):
        while await Upkeep(engine).rescue() >= SLICE:
            pass
        if left:
            await asyncio.sleep(ROUND_SECONDS)


def _let_go_of_the_terminal() -> None:
    """Whoever waits for the end of what the worker wrote must not wait for us."""
    with contextlib.suppress(OSError), Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), sys.stderr.fileno())
