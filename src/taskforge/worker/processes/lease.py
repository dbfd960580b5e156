"""Keeps a worker's lease in a small process of its own, so that neither a blocked event loop nor a
held GIL can lose it.

The keeper renews, samples the worker's cpu and memory, and passes on what the store answers: a wish
to drain, jobs to cancel, a lease that is lost. It stops renewing when the worker stands still
(SIGSTOP): a worker that cannot run must not keep others from its jobs. It outlives its worker: once
that process has surely ended without leaving, it ends the lease, so that others need not wait for
it (`survivor.py`).
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol
from uuid import UUID

import msgspec
import psutil

from taskforge.domain.access import Throttled
from taskforge.domain.durations import span
from taskforge.domain.errors import (
    Deregistered,
    LeaseLost,
    StoreFault,
    StoreUnavailable,
    StoreUnsuitable,
)
from taskforge.domain.tenancy import QuotaExceeded
from taskforge.domain.worker import Sample
from taskforge.ports.engine import AnyEngine
from taskforge.worker.processes.keeper_words import (
    RETRY_SECONDS,
    Charge,
    Word,
    WorkerHealth,
    split_word,
)
from taskforge.worker.processes.process_watch import is_standing_still
from taskforge.worker.processes.survivor import end_children, rescue, tell_death
from taskforge.worker.processes.vigil import Vigil

logger = logging.getLogger("taskforge.worker")
LAST_WORDS_SECONDS = 0.5  # to read what a dead worker had said
STOP_AT = 0.9  # of a lease without an answer: the handlers stop, before others may begin
ANSWER_PART = 0.05  # of a lease, for an answer to a question that was asked at the last moment


class JobEndings(Protocol):
    """How a keeper ends jobs of its worker, which cannot do so itself."""

    async def hand_back(self, engine: AnyEngine, incarnation: UUID, fences: Sequence[UUID]) -> None:
        """They had not begun."""

    async def time_out(
        self, engine: AnyEngine, incarnation: UUID, fence: UUID, seconds: float
    ) -> None:
        """It ran longer than its timeout, which is this."""


async def _open(engine: AnyEngine) -> None:
    try:
        await engine.open(migrate=False)
    except (QuotaExceeded, Throttled) as error:  # a server's, or a proxy's before it
        raise StoreUnavailable(str(error), retry_after=error.retry_after) from None


async def open_when_there(engine: AnyEngine, charge: Charge, began: float) -> AnyEngine:
    """A store that is away just now is tried again for as long as the lease could hold, counted
    from when the keeper began."""
    give_up = began + STOP_AT * charge.lease_seconds
    while True:
        try:
            await _open(engine)
        except (StoreUnavailable, StoreUnsuitable, StoreFault):
            # A login or a database that is refused is mostly so for a while.
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(min(0.2, charge.interval))
        else:
            return engine


async def keep(make_engine: Callable[[], AnyEngine], charge: Charge, endings: JobEndings) -> bool:
    """The keeper's life; false when the lease was lost."""
    began = time.monotonic()
    os.set_blocking(sys.stdout.fileno(), False)
    vigil, engine = Vigil(charge.worker), make_engine()
    is_open = False
    try:
        try:
            is_open = await vigil.while_on(open_when_there(engine, charge, began)) is not None
        except (StoreUnavailable, StoreUnsuitable, StoreFault) as error:
            if not vigil.is_over:
                _say(Word(lost=f"the store could not be reached: {error}", away=True))
                return False
        if is_open and not await _renew(engine, charge, vigil, endings):
            return False
        # Nobody is there any more to keep it for. Should the process live on, the lease ends by
        # itself.
        await asyncio.wait([vigil.death], timeout=charge.lease_seconds)
        if vigil.death.done():
            await asyncio.wait([vigil.listening], timeout=LAST_WORDS_SECONDS)
            await end_children(vigil.children.values())

            async def opened() -> AnyEngine:
                nonlocal engine, is_open
                if not is_open:
                    engine = make_engine()
                    await _open(engine)
                    is_open = True
                return engine

            await tell_death(
                opened,
                charge.incarnation,
                charge.worker,
                vigil.hurry,
                before=partial(_tell_overrun, charge=charge, vigil=vigil, endings=endings),
            )
    finally:
        await vigil.end()
        if is_open:
            await engine.close()
    return True


async def _tell_overrun(
    engine: AnyEngine, *, charge: Charge, vigil: Vigil, endings: JobEndings
) -> None:
    """A worker that was ended because what it ran had all of its time: nobody crashed. By the
    store's clock that time may not be over, for it knows neither a handler's own timeout nor
    whether its own silence kept anybody waiting."""
    health = vigil.health
    if health.overran_seconds is not None and health.blocking is not None:
        with contextlib.suppress(LeaseLost):
            # the last word may have come too late for a renewal: who was held up goes back unspent
            await engine.renew(charge.incarnation, charge.lease_seconds, _health_sample(health))
        with contextlib.suppress(LeaseLost):  # somebody has ended it
            await endings.time_out(
                engine, charge.incarnation, health.blocking, health.overran_seconds
            )
    elif health.overran_seconds is not None or vigil.pulse.has_killed:
        await rescue(engine)  # of all of its jobs, as far as the store knows how long they may run


async def _renew(engine: AnyEngine, charge: Charge, vigil: Vigil, endings: JobEndings) -> bool:
    """For as long as the worker is there; false when the lease was lost."""
    try:
        watched = psutil.Process(charge.worker.pid)
    except psutil.Error:
        return True
    answered = time.monotonic()
    limit = answered + STOP_AT * charge.lease_seconds
    while not vigil.is_over:
        started = time.monotonic()
        vigil.news.clear()
        try:
            if not is_standing_still(charge.worker.pid):
                sample = _sample(watched, vigil.seen_health)
                patience = (
                    charge.interval
                    if started > limit
                    else max(limit - started, ANSWER_PART * charge.lease_seconds)
                )
                renewal = engine.renew(charge.incarnation, charge.lease_seconds, sample)
                answer = await vigil.while_on(renewal, patience)
                if answer is not None:
                    answered = time.monotonic()
                    limit = started + STOP_AT * charge.lease_seconds
                    _say(
                        Word(
                            answer.drain,
                            answer.cancelled,
                            answer.cancel_reasons,
                            slots=answer.slots,
                        )
                    )
                elif not vigil.is_over:
                    raise StoreUnavailable("it does not answer")  # noqa: TRY301 - as if it had said so itself
            giving_back = vigil.hand_back_unstarted(
                partial(endings.hand_back, engine, charge.incarnation)
            )
            await vigil.while_on(giving_back, charge.interval)
        except LeaseLost as error:
            if vigil.death.done():
                return True
            _say(Word(lost=str(error), deregistered=isinstance(error, Deregistered)))
            return False
        except (StoreUnavailable, StoreUnsuitable, StoreFault) as error:
            # By the store's clock the lease ends a lease after the last renewal was sent; the
            # handlers stop before. Who stood still itself, as on a machine that was frozen, asks
            # once more: everybody may have.
            late = time.monotonic() - limit
            if late >= 0 and (
                started >= limit or late < charge.interval + 2 * ANSWER_PART * charge.lease_seconds
            ):
                silent = time.monotonic() - answered
                _say(
                    Word(
                        lost=f"the store could not be reached for {span(silent)}: {error}",
                        away=True,
                    )
                )
                return False
        pause, left = (
            max(RETRY_SECONDS, charge.interval - (time.monotonic() - started)),
            limit - time.monotonic(),
        )
        await vigil.rest(min(pause, left) if left > 0 else pause)
    return True


def _say(word: Word) -> None:
    """Never waits: a worker whose event loop is blocked does not read, and its lease must be
    renewed all the same. What it misses is said again with the next renewal, and a lost lease by
    the exit status."""
    for part in split_word(word):
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(sys.stdout.fileno(), msgspec.json.encode(part) + b"\n")


def _sample(process: psutil.Process, health: WorkerHealth) -> Sample:
    cpu: float | None = None
    memory: int | None = None
    with contextlib.suppress(psutil.Error), process.oneshot():
        cpu, memory = process.cpu_percent(), process.memory_info().rss
    return msgspec.structs.replace(_health_sample(health), cpu_percent=cpu, memory_bytes=memory)


def _health_sample(health: WorkerHealth) -> Sample:
    return Sample(
        healthy=health.healthy,
        stopping=health.stopping,
        stuck_slots=health.stuck_slots,
        blocking=health.blocking,
    )
