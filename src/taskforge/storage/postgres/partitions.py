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
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections

TABLES = ("jobs", "finished", "executions", "logs", "job_tags")
DAYS_AHEAD = 3
# Moving 250,000 jobs took 5 s.
MOST_SURVIVORS = 10_000
KEPT_FOR = timedelta(hours=1)
_LOCK = 0x7A5F0B6F


async def make_ahead(connections: PostgresConnections, now: datetime) -> list[str]:
    """Make the partitions of today and the next days that are missing. A day whose first jobs
    already lie in the default partition is left there: it cannot be split off without moving
    them."""
    made = []
    async with connections.transaction(telling=False) as connection:
        if not await connection.fetchval("select pg_try_advisory_xact_lock($1)", _LOCK):
            return []  # another process is at it
        await connection.execute("set local lock_timeout = '2s'")
        existing = await _days(connection, connections.schema)
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for ahead in range(DAYS_AHEAD + 1):
            day = today + timedelta(days=ahead)
            if f"{day:%Y%m%d}" in existing:
                continue
            try:
                async with connection.transaction():
                    await _make(connection, connections.schema, day)
            except asyncpg.CheckViolationError:
                continue
            made.append(f"{day:%Y%m%d}")
    return made


async def _make(connection: Connection, schema: str, day: datetime) -> None:
    low, high = first_id_at(day), first_id_at(day + timedelta(days=1))
    for table in TABLES:
        name = f'"{schema}".{table}_{day:%Y%m%d}'
        # Attaching a ready table holds a weaker lock on the parent than creating a partition in
        # place does.
        await connection.execute(
            f'create table {name} (like "{schema}".{table} including defaults including '
            f"constraints)"
        )
        await connection.execute(
            f"alter table \"{schema}\".{table} attach partition {name} for values from ('{low}') "
            f"to ('{high}')"
        )


async def _days(connection: Connection, schema: str) -> set[str]:
    rows = await connection.fetch(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = to_regclass($1)::oid order by 1",
        f'"{schema}".jobs',
    )
    return {match[1] for row in rows if (match := re.fullmatch(r"jobs_(\d{8})", row["relname"]))}


async def drop_old(
    connections: PostgresConnections, now: datetime, cutoff: datetime, kept: dict[str, datetime]
) -> int:
    """Drop the oldest partition that ends before the cutoff; returns how many jobs went with it.
    One with many survivors stays, for nobody can read or write any history while they are moved:
    its old jobs are pruned one by one, as elsewhere. `kept` remembers when such ones were looked
    at."""
    async with connections.transaction(telling=False) as connection:
        if not await connection.fetchval("select pg_try_advisory_xact_lock($1)", _LOCK):
            return 0
        await connection.execute(
            "set local lock_timeout = '2s'; set local statement_timeout = '5min'"
        )
        for day in sorted(await _days(connection, connections.schema)):
            if _end(day) > cutoff:
                break
            if day in kept and now < kept[day] + KEPT_FOR:
                continue
            if len(await _survivors(connections, connection, day, cutoff)) > MOST_SURVIVORS:
                kept[day] = now
                continue
            parents = ", ".join(f'"{connections.schema}".{table}' for table in TABLES)
            await connection.execute(f"lock table {parents} in access exclusive mode")
            # Again, now that none can be retried any more; what this reads was read just before.
            survivors = await _survivors(connections, connection, day, cutoff)
            return (
                await _drop(connections, connection, day, cutoff, survivors)
                if len(survivors) <= MOST_SURVIVORS
                else 0
            )
    return 0


async def _survivors(
    connections: PostgresConnections, connection: Connection, day: str, cutoff: datetime
) -> set[UUID]:
    """The jobs of a day that are not finished, or finished after the cutoff; if they are too many,
    only so many of them."""
    low, high = first_id_at(_end(day) - timedelta(days=1)), first_id_at(_end(day))
    places = [
        f"select job from taskforge.{place} where fence >= $1 and fence < $2"
        for place in ("ready", "waiting", "running")
    ]
    most = f"limit {MOST_SURVIVORS + 1}"
    live = await connection.fetch(
        connections.in_schema(f"{' union all '.join(places)} {most}"), low, high
    )
    # No index leads to these. Places are better read by theirs, whatever the planner thinks of
    # their size.
    await connection.execute("set local enable_seqscan = on")
    late = await connection.fetch(
        connections.in_schema(
            f"select job from taskforge.finished_{day} where finished_at >= $1 {most}"
        ),
        cutoff,
    )
    await connection.execute("set local enable_seqscan = off")
    return {row["job"] for row in (*live, *late)}


async def _drop(
    connections: PostgresConnections,
    connection: Connection,
    day: str,
    cutoff: datetime,
    survivors: set[UUID],
) -> int:
    await connection.execute(
        "create temporary table survivors (id uuid primary key) on commit drop"
    )
    await connection.execute("insert into survivors select unnest($1::uuid[])", list(survivors))
    await connection.execute("set local enable_seqscan = on; analyze survivors")
    parts = {table: f'"{connections.schema}".{table}_{day}' for table in TABLES}
    for table in TABLES:
        await connection.execute(
            f'alter table "{connections.schema}".{table} detach partition {parts[table]}'
        )
    for table in TABLES:
        column = "id" if table == "jobs" else "job"
        await connection.execute(
            f'insert into "{connections.schema}".{table} select * from {parts[table]} '
            f"where {column} in (select id from survivors)"
        )
    gone = await connection.fetch(
        f"select project, queue, status, count(*) as count from {parts['finished']} where "
        f"finished_at < $1 group by 1, 2, 3",
        cutoff,
    )
    await connection.executemany(
        connections.in_schema(
            "insert into taskforge.tally_deltas (project, queue, status, count) values ($1, "
            "$2, $3, $4)"
        ),
        [(row["project"], row["queue"], row["status"], -row["count"]) for row in gone],
    )
    for table in TABLES:
        await connection.execute(f"drop table {parts[table]}")
    return sum(row["count"] for row in gone)


def _end(day: str) -> datetime:
    return datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1)
