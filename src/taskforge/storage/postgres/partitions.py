"""Daily partitions of a job's facts and history: made ahead of time, dropped when retention has
passed over them.

A partition that is dropped may hold jobs that must stay, because they are not finished or finished
only lately: these survivors move to the default partition first, in the same transaction.
"""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from taskforge.domain.ids import first_id_at
from taskforge.domain.term import Deposed
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.statements import put_in

DAYS_AHEAD = 3
# Moving 250,000 jobs took 5 s.
MOST_SURVIVORS = 10_000
KEPT_FOR = timedelta(hours=1)
_LOCK = 0x7A5F0B6F


async def make_ahead(
    connections: PostgresConnections, now: datetime, term: int | None = None
) -> list[str]:
    """Make the partitions of today and the next days that are missing, and return the days that
    could not be made. A day whose first jobs already lie in the default partition is left there: it
    cannot be split off without moving them."""
    missing = []
    async with connections.transaction(telling=False) as connection:
        if not await connection.fetchval(connections.sql("try_lock_partitions"), _LOCK):
            return []  # another process is at it
        await connection.execute(connections.sql("wait_for_partitions"))
        existing = await _days(connections, connection)
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for ahead in range(DAYS_AHEAD + 1):
            day = today + timedelta(days=ahead)
            if f"{day:%Y%m%d}" in existing:
                continue
            low, high = str(first_id_at(day)), str(first_id_at(day + timedelta(days=1)))
            text = connections.sql("make_partitions")
            try:
                async with connection.transaction():
                    await connection.execute(put_in(text, DAY=f"{day:%Y%m%d}", LOW=low, HIGH=high))
            except asyncpg.CheckViolationError:
                missing.append(f"{day:%Y-%m-%d}")
        await _hold(connections, connection, term)
    return missing


async def _hold(connections: PostgresConnections, connection: Connection, term: int | None) -> None:
    """The last step before the commit, not the first: the row would stay locked for as long as the
    rest takes, and no leader could renew its lease."""
    if term is not None and not await connection.fetch(connections.sql("hold_term"), term):
        raise Deposed(term)


async def _days(connections: PostgresConnections, connection: Connection) -> set[str]:
    rows = await connection.fetch(connections.sql("partitions"))
    return {match[1] for row in rows if (match := re.fullmatch(r"jobs_(\d{8})", row["relname"]))}


async def drop_old(
    connections: PostgresConnections,
    now: datetime,
    cutoff: datetime,
    kept: dict[str, datetime],
    term: int | None = None,
) -> int:
    """Drop the oldest partition that ends before the cutoff; returns how many jobs went with it.
    One with many survivors stays, for nobody can read or write any history while they are moved:
    its old jobs are pruned one by one, as elsewhere. `kept` remembers when such ones were looked
    at."""
    async with connections.transaction(telling=False) as connection:
        if not await connection.fetchval(connections.sql("try_lock_partitions"), _LOCK):
            return 0
        await connection.execute(connections.sql("wait_for_drop"))
        for day in sorted(await _days(connections, connection)):
            if _end(day) > cutoff:
                break
            if day in kept and now < kept[day] + KEPT_FOR:
                continue
            if len(await _survivors(connections, connection, day, cutoff)) > MOST_SURVIVORS:
                kept[day] = now
                continue
            await connection.execute(connections.sql("lock_partitions"))
            # Again, now that none can be retried any more; what this reads was read just before.
            survivors = await _survivors(connections, connection, day, cutoff)
            if len(survivors) > MOST_SURVIVORS:
                return 0
            count = await _drop(connections, connection, day, cutoff, survivors)
            await _hold(connections, connection, term)
            return count
    return 0


async def _survivors(
    connections: PostgresConnections, connection: Connection, day: str, cutoff: datetime
) -> set[UUID]:
    """The jobs of a day that are not finished, or finished after the cutoff; if they are too many,
    only so many of them."""
    low, high = first_id_at(_end(day) - timedelta(days=1)), first_id_at(_end(day))
    most = MOST_SURVIVORS + 1
    live = await connection.fetch(connections.sql("survivors_unfinished"), low, high, most)
    await connection.execute(connections.sql("read_whole_tables"))
    late = await connection.fetch(
        put_in(connections.sql("survivors_finished"), DAY=day), cutoff, most
    )
    await connection.execute(connections.sql("read_by_indexes"))
    return {row["job"] for row in (*live, *late)}


async def _drop(
    connections: PostgresConnections,
    connection: Connection,
    day: str,
    cutoff: datetime,
    survivors: set[UUID],
) -> int:
    await connection.execute(connections.sql("make_survivors"))
    await connection.execute(connections.sql("add_survivors"), list(survivors))
    await connection.execute(connections.sql("analyze_survivors"))
    await connection.execute(put_in(connections.sql("detach_partitions"), DAY=day))
    await connection.execute(put_in(connections.sql("move_survivors"), DAY=day))
    gone = await connection.fetch(put_in(connections.sql("count_dropped"), DAY=day), cutoff)
    await connection.executemany(
        connections.sql("tally"),
        [(row["project"], row["queue"], row["status"], -row["count"]) for row in gone],
    )
    await connection.execute(put_in(connections.sql("drop_partitions"), DAY=day))
    return sum(row["count"] for row in gone)


def _end(day: str) -> datetime:
    return datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1)
