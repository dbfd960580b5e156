"""A job as a change finds it: the locked row of the place it is in, its facts, and what the domain
needs to know of it; and where it may go."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain.changes import Standing
from taskforge.domain.job import JobStatus
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Lane, LaneKey
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections

LOCATE_TRIES = 50
_LIVE_PLACES: Iterable[tuple[str, JobStatus]] = (
    ("lock_ready", JobStatus.PENDING),
    ("lock_waiting", JobStatus.SCHEDULED),
    ("lock_running", JobStatus.PROCESSING),
)


class LocatedJob(msgspec.Struct, frozen=True):
    standing: Standing
    facts: Any
    place: Any  # the locked row of the place it is in


async def lock_places(
    connections: PostgresConnections,
    connection: Connection,
    projects: Sequence[int],
    jobs: list[UUID],
) -> dict[UUID, tuple[JobStatus, asyncpg.Record]]:
    """Lock the row of the place each job is in. Whoever holds it alone may change the job's
    facts."""
    places: dict[UUID, tuple[JobStatus, asyncpg.Record]] = {}
    for _ in range(LOCATE_TRIES):
        missing = sorted(job for job in jobs if job not in places)
        facts = await connection.fetch(connections.sql("facts"), missing, list(projects))
        if not facts:
            break
        missing = [row["id"] for row in facts]
        for name, status in _LIVE_PLACES:
            rows = await connection.fetch(connections.sql(name), missing)
            places |= {row["job"]: (status, row) for row in rows}
        rows = await connection.fetch(
            connections.sql("lock_finished"), missing, [row["queue"] for row in facts]
        )
        places |= {row["job"]: (codec.JOB_STATUSES[row["status"]], row) for row in rows}
        if len(places) == len(jobs):
            break
        # A job that moved between two of these reads was seen in none; each new statement sees
        # what has committed since.
    return places


def read_standing(facts: asyncpg.Record, status: JobStatus, place: asyncpg.Record) -> Standing:
    return Standing(
        job=facts["id"],
        status=status,
        queue=facts["queue_name"],
        priority=facts["priority"],
        attempt=place["attempt"],
        max_attempts=place["max_attempts"],
        crashes=place["crashes"],
        origin_queue=facts["origin_name"],
        cancel_requested=bool(place.get("cancel_requested")),
        payload_erased=facts["erased"],
    )


class Goals:
    """Queues and lanes that jobs are moved to, as one transaction sees them, each read once."""

    def __init__(self, catalog_cache: CatalogCache, connection: Connection) -> None:
        self._catalog_cache = catalog_cache
        self._connection = connection
        self._queues: dict[tuple[int, str], Queue] = {}
        self._lanes: dict[LaneKey, Lane] = {}

    async def queue(self, project: int, name: str) -> Queue:
        queue = self._queues.get((project, name))
        if queue is None:
            card = await self._catalog_cache.read_named(self._connection, project, name)
            if card is None:
                raise await self._catalog_cache.no_queue([project], name)
            queue = self._queues[project, name] = card.queue
        return queue

    def known_lane(self, key: LaneKey) -> int | None:
        lane = self._lanes.get(key)
        return None if lane is None else lane.number

    async def lane(self, key: LaneKey) -> int:
        lane = self._lanes.get(key)
        if lane is None:
            self._lanes |= await self._catalog_cache.find_lanes(self._connection, [key])
            lane = self._lanes.get(key)
        if lane is None:
            # Not kept: what refuses this job takes the lane back with it.
            lane = (await self._catalog_cache.make_lanes(self._connection, [key]))[key]
        return lane.number
