"""Sends outcomes to the store in batches: whatever gathered while the last batch was under way goes
with the next."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from taskforge.domain.errors import (
    Conflict,
    Invalid,
    LeaseLost,
    StoreFault,
    StoreUnavailable,
    TaskForgeError,
)
from taskforge.domain.ids import job_of
from taskforge.domain.job import error_info
from taskforge.domain.outcome import Failure
from taskforge.domain.retry import Patience
from taskforge.ports.work_source import Completion, WorkSource

logger = logging.getLogger("taskforge.worker")
MOST_AT_ONCE = 1_000
REFUSED = "OutcomeRefused"


class OutcomeSink(Protocol):
    """Takes outcomes that are to be reported."""

    @property
    def unsent(self) -> int:
        """How many outcomes the store has not taken yet."""

    def put(self, completion: Completion) -> None: ...
    async def drained(self) -> None:
        """Until the store has taken all of them."""


class Finisher:
    def __init__(
        self,
        source: WorkSource,
        flush_reports: Callable[[], Awaitable[None]],
        on_lost: Callable[[Sequence[UUID]], None],
        on_sent: Callable[[], None],
    ) -> None:
        self._source = source
        self._flush_reports = flush_reports
        self._on_lost = on_lost
        self._on_sent = on_sent
        self._pending: deque[Completion] = deque()
        self._sending = 0
        self._work = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def unsent(self) -> int:
        return len(self._pending) + self._sending

    def put(self, completion: Completion) -> None:
        if not self._pending:
            self._quiet.clear()
            self._work.set()
        self._pending.append(completion)

    async def drained(self) -> None:
        await self._quiet.wait()

    async def run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._pending:
                batch = [
                    self._pending.popleft() for _ in range(min(len(self._pending), MOST_AT_ONCE))
                ]
                self._sending = len(batch)
                try:
                    await self._send(batch)
                finally:
                    self._sending = 0
                    self._on_sent()
            self._quiet.set()

    async def _send(self, batch: list[Completion]) -> None:
        """Try until the store answers: a finished job's result must not be lost to a restart of the
        database."""
        patience = Patience()
        while True:
            try:
                await self._report()
                lost = await self._source.complete(batch)
            except StoreUnavailable as error:
                logger.debug("cannot report %d outcomes, trying again: %s", len(batch), error)
                await asyncio.sleep(patience.wait())
                continue
            except Exception as error:
                if not _is_refusal(error):
                    raise
                await self._send_apart(batch, error)
                return
            if lost:
                self._on_lost(lost)
            return

    async def _report(self) -> None:
        """Log lines are taken only while the job runs, so they go first. If they are refused, the
        outcome still counts."""
        try:
            await self._flush_reports()
        except Exception as error:
            if not _is_refusal(error):
                raise
            logger.exception("log lines or progress cannot be stored; please report this")

    async def _send_apart(self, batch: list[Completion], error: Exception) -> None:
        """One outcome that the store cannot take must not keep the others from it, nor end the
        worker: its attempt has failed."""
        if len(batch) > 1:
            for completion in batch:
                await self._send([completion])
            return
        job, outcome, ran = msgspec.structs.astuple(batch[0])
        logger.error(
            "the outcome of job %s cannot be stored; please report this",
            job_of(job.fence),
            exc_info=error,
        )
        if not (isinstance(outcome, Failure) and outcome.error.type == REFUSED):
            failure = Failure(
                error_info(REFUSED, f"what came of this attempt cannot be stored: {error}")
            )
            await self._send([Completion(job, failure, ran)])


def _is_refusal(error: Exception) -> bool:
    """Whether it is about what was sent, not about this worker or the store."""
    if isinstance(error, LeaseLost | StoreUnavailable):
        return False
    return isinstance(error, Invalid | Conflict | StoreFault) or not isinstance(
        error, TaskForgeError
    )


Put = Callable[[Completion], None]


def watched(put: Put, look: Put) -> Put:
    """Puts an outcome where it belongs once that has seen it."""

    def watch_and_put(completion: Completion) -> None:
        look(completion)
        put(completion)

    return watch_and_put
