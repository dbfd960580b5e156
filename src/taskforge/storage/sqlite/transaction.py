"""What one call works with inside the writer's transaction."""

import sqlite3
from collections.abc import Callable
from datetime import datetime

from taskforge.domain.ids import IdMint
from taskforge.storage.sqlite.catalog_cache import CatalogCache
from taskforge.storage.sqlite.codec import micros


class Transaction:
    """Made anew for each call, so that every call has one `now` and is known to have made work or
    not."""

    __slots__ = (
        "catalog_cache",
        "connection",
        "execute",
        "executemany",
        "mint",
        "now",
        "steady",
        "wakes",
    )

    def __init__(
        self,
        connection: sqlite3.Connection,
        catalog_cache: CatalogCache,
        mint: IdMint,
        now: int,
        steady: int,
    ) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.catalog_cache = catalog_cache
        self.mint = mint
        self.now = now
        self.steady = steady  # the same moment by the clock that leases go by
        self.wakes = False  # set by a call after which jobs may be claimable


class Stamp:
    """The injected clock as microseconds, and ids stamped with the time at which their transaction
    began."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._began = 0
        # until the file has said by which clock its leases go; an injected clock stands for both
        self.steady = self.now
        self.mint = IdMint(lambda: self._began // 1_000)

    def now(self) -> int:
        return micros(self._clock())

    def begin(self) -> int:
        """The `now` of a transaction. Reading the clock for each id would cost as much again as the
        id."""
        self._began = self.now()
        return self._began
