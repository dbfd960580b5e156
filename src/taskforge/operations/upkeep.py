"""The slices that keep a store healthy: staging, rescue, expiry, folding, pruning. Any process runs
them; none leads."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from taskforge.domain.outcome import Finish, decide
from taskforge.ports.engine import Engine
from taskforge.services import Periodic, ServiceGroup, ServiceHealth
from taskforge.storage.records.circuits import CircuitRecords
from taskforge.storage.records.failures import FailureRecords

SLICE = 500
SLICES_IN_A_ROW = 20
FOLD_SECONDS = 5.0
PRUNE_SECONDS = 60.0
LANES, LANES_SECONDS = 5_000, 300.0
OFTEN = 0.7  # of an interval; its own rounds are never closer
SILENT = 4.0  # intervals without a look at what was lost: nobody could look, then


class Kept(msgspec.Struct, frozen=True):
    """What one round of upkeep did."""

    staged: int = 0
    rescued: int = 0
    expired: int = 0


class Upkeep:
    name = "upkeep"

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
        self._retention_days = retention_days
        self._chance = chance
        self._circuits = CircuitRecords(engine)
        self._failures = FailureRecords(engine)
        self._loops = ServiceGroup(
            self.name,
            [
                Periodic(
                    "staging, rescue and expiry",
                    lambda: self.once(OFTEN * interval, SILENT * interval),
                    seconds=interval,
                ),
                Periodic("folding", self.fold, seconds=FOLD_SECONDS),
                Periodic("pruning", self._prune, seconds=prune_interval),
                Periodic(
                    "retiring of lanes",
                    lambda: engine.retire_lanes(LANES),
                    seconds=LANES_SECONDS,
                ),
            ],
        )

    async def once(self, unless_within: float = 0.0, rhythm: float | None = None) -> Kept:
        """Stage what is due, rescue what was lost, expire what is too late, slice by slice. What is
        lost may be left to whoever has looked within these seconds: that look is the one that
        costs, and grows with what runs. `rhythm`: see `Engine.lapsed`."""
        await self._circuits.wake_due(SLICE)
        staged = await _slices(lambda: self._engine.stage(SLICE))
        rescued = await self.rescue(unless_within, rhythm)
        if rescued >= SLICE:
            rescued += await _slices(lambda: self.rescue(rhythm=rhythm))
        return Kept(staged, rescued, await _slices(lambda: self._engine.expire(SLICE)))

    async def rescue(self, unless_within: float = 0.0, rhythm: float | None = None) -> int:
        """Decide for workers that cannot any more, by the same function they use. The engine checks
        again that they cannot."""
        lapsed = await self._engine.lapsed(SLICE, unless_within=unless_within, rhythm=rhythm)
        finishes = [
            Finish(one.fence, decide(one.attempt, one.outcome, one.policy, self._chance()))
            for one in lapsed
        ]
        if not finishes:
            return 0
        return len(finishes) - len(await self._engine.finish(finishes, lapsed=True))

    async def fold(self) -> int:
        """Sum up what endings have appended: tallies, rollups, groups of failures."""
        folded = await _slices(lambda: self._engine.fold(SLICE))
        return folded + await _slices(lambda: self._failures.fold(SLICE))

    async def run(self) -> None:
        """Go on until cancelled; no loop is left running then."""
        await self._loops.run()

    async def run_once(self) -> object:
        return await self._loops.run_once()

    def health(self) -> list[ServiceHealth]:
        return self._loops.health()

    async def _prune(self) -> None:
        await self._failures.prune(SLICE)
        more = True
        while more:
            more = (await self._engine.prune(self._retention_days, SLICE)).more
            await asyncio.sleep(0.05)  # slices must not crowd out the jobs themselves


async def _slices(act: Callable[[], Awaitable[int]]) -> int:
    """Slice after slice while they come back full: many retries may fall due at once. Bounded, so
    that others get their turn."""
    total = 0
    for _ in range(SLICES_IN_A_ROW):
        done = await act()
        total += done
        if done < SLICE:
            break
    return total
