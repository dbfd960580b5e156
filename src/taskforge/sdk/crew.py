"""Workers and the upkeep that run in one event loop, and end together."""

import asyncio
import logging
from collections.abc import Sequence

from taskforge.operations.upkeep import Upkeep
from taskforge.worker.worker import Worker

logger = logging.getLogger("taskforge.sdk")


class Crew:
    """Runs from when it is made. Should a worker or the upkeep fail, all stop, and `running` fails with that."""

    def __init__(self, workers: Sequence[Worker], upkeep: Upkeep) -> None:
        self.workers = workers
        self.running = asyncio.create_task(self._run(upkeep))
        self._is_told_to_stop = False
        self._has_failed = False

    async def ready(self) -> None:
        """Until every worker takes jobs, or all have ended."""
        waiting = asyncio.create_task(self._all_ready())
        try:
            await asyncio.wait([waiting, self.running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def stop(self) -> None:
        """The first call lets running jobs finish within the grace time, the second does not wait for them."""
        is_first, self._is_told_to_stop = not self._is_told_to_stop, True
        if not (is_first and self._has_failed):
            self._stop_workers()

    def _stop_workers(self) -> None:
        for worker in self.workers:
            worker.stop()

    async def _all_ready(self) -> None:
        for worker in self.workers:
            await worker.ready.wait()

    async def _run(self, upkeep: Upkeep) -> None:
        keeping = asyncio.create_task(upkeep.run())
        working = {asyncio.create_task(worker.run()) for worker in self.workers}
        left = {keeping, *working}
        failures: list[BaseException] = []
        try:
            while left & working:
                ended, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    if not task.cancelled() and (error := task.exception()) is not None:
                        logger.error("%s failed, all stop", "the upkeep" if task is keeping else "a worker", exc_info=error)
                        failures.append(error)
                if failures and not self._has_failed:
                    self._has_failed = True
                    if not self._is_told_to_stop:
                        self._stop_workers()
        finally:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if failures:
            raise failures[0]
