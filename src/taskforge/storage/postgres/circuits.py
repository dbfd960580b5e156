"""Circuits on PostgreSQL: executions leave what came of them beside the job's own end, in the same
statement; whoever ended them judges the circuits then, under the lock of their rows."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from taskforge.domain.breaker import Endings
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Lane
from taskforge.storage.circuits import (
    ADD,
    RAISE,
    SET,
    TELL,
    CircuitRow,
    Moved,
    ProjectCircuits,
    heard,
    settings_of,
)
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.signals import Signals

logger = logging.getLogger("taskforge.storage")
# While all goes well there is nothing to decide: what came of executions is then summed up so
# often, and not with every batch.
QUIET_SECONDS = 1.0


async def lock_circuits(
    connections: PostgresConnections,
    connection: Connection,
    pairs: Iterable[tuple[int, str]],
    numbers: Iterable[int],
) -> list[asyncpg.Record]:
    """Those of queues and job types, and those with these numbers; in their order, so that nobody
    waits in a circle. Whoever holds some may then raise the project's version, never the other way
    round."""
    known = list(pairs)
    return await connection.fetch(
        connections.sql("lock_circuits"),
        [queue for queue, _ in known],
        [job_type for _, job_type in known],
        list(numbers),
        connections.bound_now(),
    )


async def save_circuits(
    connections: PostgresConnections,
    connection: Connection,
    project: int,
    moved: Sequence[Moved],
    names: Mapping[int, str],
) -> bool:
    """Keep how circuits stand that are locked, and tell whoever must hear. `names`: of queues.
    Returns whether claims must hear."""
    for one in moved:
        await connection.execute(connections.sql(SET), *one.columns)
        event = one.event(None if one.row.queue is None else names.get(one.row.queue))
        if event is not None:
            await connection.execute(connections.sql(TELL), project, *event, one.at)
    told = any(one.is_told for one in moved)
    if told:
        await connection.execute(connections.sql(RAISE), project)
    return told


class PostgresCircuits:
    def __init__(
        self, connections: PostgresConnections, catalog_cache: CatalogCache, signals: Signals
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals
        self._heard: dict[int, float] = {}  # when this process last judged those of a lane

    async def hear(self, news: Mapping[int, bool]) -> None:
        """Executions of these lanes have ended, and some failed or none did. What is not judged now
        is kept, and judged with what comes next."""
        lanes = await self._catalog_cache.lanes(news)
        by_project: dict[int, list[Lane]] = {}
        for lane in lanes.values():
            by_project.setdefault(lane.project, []).append(lane)
        try:
            for project, some in by_project.items():
                await self._hear_of(project, some, news)
        except StoreUnavailable as error:
            logger.debug("circuits are judged with the next executions that end: %s", error)

    async def _hear_of(self, project: int, lanes: Sequence[Lane], news: Mapping[int, bool]) -> None:
        catalog = await self._catalog_cache.of(project)
        circuits = await self._catalog_cache.circuits(catalog)
        cards = await self._catalog_cache.cards(project, {lane.queue for lane in lanes})
        queues = {number: card.queue for number, card in cards.items()}
        now = time.monotonic()
        due = [
            lane
            for lane in lanes
            if news[lane.number]
            or not circuits.is_closed(queues[lane.queue], lane.job_type)
            or now - self._heard.get(lane.number, -1e9) > QUIET_SECONDS
        ]
        if not due:
            return
        self._heard.update((lane.number, now) for lane in due)
        if await self._judge(project, due, circuits, queues):
            self._signals.send()

    async def _judge(
        self,
        project: int,
        lanes: Sequence[Lane],
        circuits: ProjectCircuits,
        queues: Mapping[int, Queue],
    ) -> bool:
        pairs = {
            (lane.queue, lane.job_type)
            for lane in lanes
            if queues[lane.queue].settings.circuit_breaker is not None
        }
        numbers = {number for lane in lanes for number in circuits.counting(lane.job_type)}
        async with self._connections.transaction() as connection:
            rows = await lock_circuits(self._connections, connection, pairs, numbers)
            missing = pairs - {(row["queue"], row["job_type"]) for row in rows}
            if missing:
                await connection.executemany(
                    self._connections.sql(ADD),
                    [(project, *pair, None, None) for pair in sorted(missing)],
                )
                rows = await lock_circuits(self._connections, connection, pairs, numbers)
            # Behind the locks: what another process takes, it has counted before they are free.
            taken = await connection.fetch(
                self._connections.sql("take_circuit_deltas"), [lane.number for lane in lanes]
            )
            ended: dict[int, list[Endings]] = {}
            for row in taken:
                ended.setdefault(row["lane"], []).append(Endings(*tuple(row)[1:]))
            moved = []
            for row in rows:
                circuit = CircuitRow(*row[:-1])
                endings = [
                    one
                    for lane in lanes
                    if _counts(circuit, lane, circuits)
                    for one in ended.get(lane.number, ())
                ]
                if (change := heard(circuit, settings_of(circuit, queues), endings)) is not None:
                    moved.append(change)
            names = {number: queue.name for number, queue in queues.items()}
            return await save_circuits(self._connections, connection, project, moved, names)


def _counts(circuit: CircuitRow, lane: Lane, circuits: ProjectCircuits) -> bool:
    if circuit.queue is not None:
        return (circuit.queue, circuit.job_type) == (lane.queue, lane.job_type)
    return circuit.number in circuits.counting(lane.job_type)
