"""What one question works with: a reader's transaction."""

import sqlite3

from taskforge.storage.sqlite.catalog_cache import CatalogCache


class ReadSnapshot:
    """A reader's transaction: all its statements see the file as it was at the first of them."""

    __slots__ = ("catalog_cache", "connection", "execute", "now", "steady")

    def __init__(
        self, connection: sqlite3.Connection, catalog_cache: CatalogCache, now: int, steady: int
    ) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.catalog_cache = catalog_cache
        self.now = now
        self.steady = steady  # the same moment by the clock that leases go by
