"""Keeps the catalog that one connection remembers, and proves inside each transaction that it is still the newest."""

import logging
import sqlite3
from collections.abc import Iterable
from uuid import UUID

import msgspec

from taskforge.domain.errors import LeaseLost, lease_lost
from taskforge.domain.limiter import LeakyBucket
from taskforge.storage.catalog import Catalog, Lane, LaneKey, OpenLane, Taker
from taskforge.storage.sqlite import codec
from taskforge.storage.statements import statement

PACKAGE = "taskforge.storage.sqlite"
logger = logging.getLogger("taskforge.storage")


def sql(name: str) -> str:
    return statement(PACKAGE, name)


class Reach(msgspec.Struct, frozen=True):
    """A worker, the lanes it may take, best tier first, and their numbers as statements want them."""

    taker: Taker
    slots: int
    lanes: tuple[OpenLane, ...]
    numbers: str
    shaped: tuple[OpenLane, ...]  # one lane of each queue whose rate limit asks whether something waits


class Keeper:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._catalog: Catalog | None = None
        self._reaches: dict[UUID, Reach] = {}
        self.news: list[str] = []  # for the log, once it is committed

    def forget(self) -> None:
        """After a rollback, what is remembered may never have been; its version number may come to mean something else."""
        self._catalog = None
        self._reaches.clear()
        self.news.clear()

    def tell_news(self) -> None:
        for line in self.news:
            logger.warning("%s", line)
        self.news.clear()

    def current(self) -> Catalog:
        """The catalog as of the transaction that is open; no transaction can change it under the writer's."""
        version: int = self._connection.execute("select version from catalog").fetchone()[0]
        if self._catalog is None or self._catalog.version != version:
            queues = self._connection.execute(_QUEUES).fetchall()
            lanes = self._connection.execute(_LANES).fetchall()
            assigned = map(codec.assignment, self._connection.execute(_ASSIGNMENTS).fetchall())
            self._catalog = Catalog(version, map(codec.queue, queues), (Lane(*row) for row in lanes), assigned)
            self._reaches.clear()
        return self._catalog

    def raise_version(self) -> None:
        self._connection.execute("update catalog set version = version + 1")

    def with_lanes(self, catalog: Catalog, keys: Iterable[LaneKey]) -> Catalog:
        """The current catalog, or one that knows these lanes, made where they are new."""
        missing = [key for key in keys if catalog.lane(key) is None]
        if not missing:
            return catalog
        rows = [(catalog.queues[key[0]].project, *key) for key in dict.fromkeys(missing)]
        self._connection.executemany(sql("make_lane"), rows)
        self.raise_version()
        return self.current()

    def lane(self, key: LaneKey) -> int:
        number = self.with_lanes(self.current(), [key]).lane(key)
        assert number is not None
        return number

    def reach(self, incarnation: UUID, now: int) -> Reach:
        """What a worker may take, remembered for as long as the catalog stands; `LeaseLost` when its lease does not."""
        row = self._connection.execute("select lease_until from workers where incarnation = ?", (incarnation.bytes,)).fetchone()
        if row is None or row[0] <= now:
            self._reaches.pop(incarnation, None)
            raise self.lost(incarnation)
        catalog = self.current()
        reach = self._reaches.get(incarnation)
        if reach is None:
            *columns, slots = self._connection.execute(_TAKER, (incarnation.bytes,)).fetchone()
            taker = codec.taker(columns)
            lanes = catalog.open_lanes(taker)
            shaped = {lane.queue: lane for lane in lanes if isinstance(lane.settings.bucket, LeakyBucket)}
            reach = Reach(taker, slots, lanes, codec.json([lane.number for lane in lanes]), tuple(shaped.values()))
            self._reaches[incarnation] = reach
        return reach

    def lost(self, incarnation: UUID) -> LeaseLost:
        """What to tell a worker that has no lease."""
        statement = "select name, left_at is not null and died_at is null from workers where incarnation = ?"
        name, has_left = self._connection.execute(statement, (incarnation.bytes,)).fetchone() or (None, 0)
        return lease_lost(incarnation, name, has_left=bool(has_left))

    def live_takers(self, now: int) -> list[Taker]:
        """Every worker whose lease is alive and that goes on claiming: for one that is drained or stops nobody waits."""
        rows = self._connection.execute(
            f"{_ALL_TAKERS} where lease_until > ? and not drain_mode and not stopping", (now,)
        ).fetchall()
        return [codec.taker(row) for row in rows]


_QUEUES = """
select number, id, project, name, description, priority, settings, is_active, version, created_at, updated_at, deleted_at
from queues
"""
_LANES = "select number, project, queue, job_type, priority, requires from lanes"
_ASSIGNMENTS = """
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at
from assignments a join queues q on q.number = a.queue
"""
_COLUMNS = "id, incarnation, project, worker_type, role, capabilities, queues, types, drain_mode, healthy"
_ALL_TAKERS = f"select {_COLUMNS} from workers"
_TAKER = f"select {_COLUMNS}, coalesce(wished_slots, max_concurrent_jobs) from workers where incarnation = ?"
