"""The slices that keep a store healthy: staging, rescue, expiry, folding, pruning. Any process runs them; none leads."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable

import msgspec

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.outcome import Finish, decide
from taskforge.domain.retry import Patience, RetryPolicy
from taskforge.storage.engine import Engine

logger = logging.getLogger("taskforge.upkeep")
SLICE = 500
SLICES_IN_A_ROW = 20
FOLD_SECONDS = 5.0
PRUNE_SECONDS = 60.0
OFTEN = 0.7  # of an interval; its own rounds are never closer
SILENT = 4.0  # intervals without a look at what was lost: nobody could look, then
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 60.0


class Kept(msgspec.Struct, frozen=True):
    """What one round of upkeep did."""

    staged: int = 0
    rescued: int = 0
    expired: int = 0


class Upkeep:
    def __init__(
        self,
        engine: Engine,
        *,
        interval: float = 0.5,
        prune_interval: float = PRUNE_SECONDS,
        retention_days: float = 7.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._engine = engine
        self._interval = interval
        self._prune_interval = prune_interval
        self._retention_days = retention_days
        self._chance = chance

    async def once(self, unless_within: float = 0.0, rhythm: float | None = None) -> Kept:
        """Stage what is due, rescue what was lost, expire what is too late, slice by slice. What is lost may be left to whoever has
        looked within these seconds: that look is the one that costs, and grows with what runs. `rhythm`: see `Engine.lapsed`."""
        staged = await _slices(lambda: self._engine.stage(SLICE))
        rescued = await self.rescue(unless_within, rhythm)
        if rescued >= SLICE:
            rescued += await _slices(lambda: self.rescue(rhythm=rhythm))
        return Kept(staged, rescued, await _slices(lambda: self._engine.expire(SLICE)))

    async def rescue(self, unless_within: float = 0.0, rhythm: float | None = None) -> int:
        """Decide for workers that cannot any more, by the same function they use. The engine checks again that they cannot."""
        lapsed = await self._engine.lapsed(SLICE, unless_within=unless_within, rhythm=rhythm)
        finishes = [Finish(one.fence, decide(one.attempt, one.outcome, one.policy, self._chance())) for one in lapsed]
        if not finishes:
            return 0
        return len(finishes) - len(await self._engine.finish(finishes, lapsed=True))

    async def run(self) -> None:
        """Go on until cancelled; no loop is left running then."""
        loops = [
            asyncio.ensure_future(one)
            for one in (
                every(self._interval, lambda: self.once(OFTEN * self._interval, SILENT * self._interval)),
                every(FOLD_SECONDS, lambda: self._engine.fold(10 * SLICE)),
                every(self._prune_interval, self._prune),
            )
        ]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _prune(self) -> None:
        more = True
        while more:
            more = (await self._engine.prune(self._retention_days, SLICE)).more
            await asyncio.sleep(0.05)  # slices must not crowd out the jobs themselves


async def every(seconds: float, act: Callable[[], Awaitable[object]]) -> None:
    """At once and then again and again, whatever it meets: upkeep ends no process. A store that is away is tried again after ever
    longer waits, and so is what failed, which is told of once; several processes drift apart by jitter."""
    away, failed = Patience(), Patience(RetryPolicy(delay=FIRST_REST_SECONDS, most=LONGEST_REST_SECONDS))
    told = ""
    while True:
        try:
            await act()
        except StoreUnavailable as error:
            await asyncio.sleep(away.wait(error.asked_for))
            continue
        except Exception as error:
            if told != repr(error):
                logger.exception("a part of the upkeep failed and is tried again")
                told = repr(error)
            await asyncio.sleep(failed.wait())
            continue
        away.forget()
        failed.forget()
        told = ""
        await asyncio.sleep(seconds * random.uniform(0.8, 1.2))


async def lasting(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """What must not end before it is cancelled. Should it, the log says so, and it begins again, after ever longer rests."""
    rest = FIRST_REST_SECONDS
    while True:
        began = time.monotonic()
        try:
            await run()
            logger.error("%s ended by itself and begins again", name)
        except Exception:
            logger.exception("%s failed and begins again", name)
        if time.monotonic() - began > LONGEST_REST_SECONDS:
            rest = FIRST_REST_SECONDS
        await asyncio.sleep(rest)
        rest = min(LONGEST_REST_SECONDS, 2 * rest)


async def _slices(act: Callable[[], Awaitable[int]]) -> int:
    """Slice after slice while they come back full: many retries may fall due at once. Bounded, so that others get their turn."""
    total = 0
    for _ in range(SLICES_IN_A_ROW):
        done = await act()
        total += done
        if done < SLICE:
            break
    return total
