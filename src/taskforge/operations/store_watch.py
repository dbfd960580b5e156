"""Looks now and then at how far the upkeep of a store is behind, whoever should have done it, and
at what holds it up. What it finds is told as late services are: in the log, by readiness and with
the node. `taskforge doctor` looks for itself."""

import contextlib
from typing import Protocol

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.finding import PARTITIONS, UpkeepState
from taskforge.ports.examination import Examination
from taskforge.ports.upkeep import Maintenance
from taskforge.services import Periodic, ServiceHealth

WATCH_SECONDS = 15.0
# A process that rescues, stages or fires does so within seconds. Folding has a minute's start.
LATE_SECONDS = 30.0


class WatchedStore(Examination, Maintenance, Protocol):
    pass


class StoreWatch:
    name = "watching the store"

    def __init__(self, store: WatchedStore, retention_days: float) -> None:
        self._store = store
        self._days = retention_days
        self._rounds = Periodic(self.name, self._look, seconds=WATCH_SECONDS)
        self._state = UpkeepState()

    async def run(self) -> None:
        await self._rounds.run()

    async def run_once(self) -> object:
        return await self._rounds.run_once()

    async def _look(self) -> None:
        self._state = await self._store.behind()
        if any(found.subject == PARTITIONS for found in self._state.hindrances):
            # The leader may run as a role that may not make them; this process may be the owner's.
            with contextlib.suppress(StoreUnavailable):
                while (await self._store.keep_partitions(self._days, None)).jobs:
                    pass

    def health(self) -> list[ServiceHealth]:
        [own] = self._rounds.health()
        return [
            own,
            *(
                ServiceHealth(
                    f"{name} of the store",
                    own.seconds_ago,
                    is_late=seconds > LATE_SECONDS,
                    error=f"overdue for {seconds:.0f} s" if seconds > LATE_SECONDS else None,
                    behind_seconds=round(seconds, 3),
                )
                for name, seconds in self._state.seconds.items()
            ),
            *(
                ServiceHealth(found.subject, own.seconds_ago, is_late=True, error=found.text)
                for found in self._state.hindrances
            ),
        ]
