"""Daily partitions of a job's facts and history: made ahead of time, dropped when retention has passed over them.

A partition that is dropped may hold jobs that must stay, because they are not finished or finished only lately: these survivors
move to the default partition first, in the same transaction.
"""

import random
import re
from datetime import UTC, datetime, timedelta

import asyncpg

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.ids import first_id_at
from taskforge.storage.postgres.connections import Connection
from taskforge.storage.postgres.store import Store

TABLES = ("jobs", "finished", "executions", "logs", "job_tags")
DAYS_AHEAD = 3
DAYS_LOOKED_AT = 4
MOST_SURVIVORS = 10_000
_LOCK = 0x7A5F0B6F


async def make_ahead(store: Store, now: datetime) -> list[str]:
    """Make the partitions of today and the next days that are missing. A day whose first jobs already lie in the default partition
    is left there: it cannot be split off without moving them."""
    made = []
    async with store.transaction() as connection:
        if not await connection.fetchval("select pg_try_advisory_xact_lock($1)", _LOCK):
            return []  # another process is at it
        await connection.execute("set local lock_timeout = '2s'")
        existing = await _days(connection, store.schema)
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for ahead in range(DAYS_AHEAD + 1):
            day = today + timedelta(days=ahead)
            if f"{day:%Y%m%d}" in existing:
                continue
            try:
                async with connection.transaction():
                    await _make(connection, store.schema, day)
            except asyncpg.CheckViolationError:
                continue
            made.append(f"{day:%Y%m%d}")
    return made


async def _make(connection: Connection, schema: str, day: datetime) -> None:
    low, high = first_id_at(day), first_id_at(day + timedelta(days=1))
    for table in TABLES:
        name = f'"{schema}".{table}_{day:%Y%m%d}'
        # Attaching a ready table holds a weaker lock on the parent than creating a partition in place does.
        await connection.execute(f'create table {name} (like "{schema}".{table} including defaults including constraints)')
        await connection.execute(
            f"alter table \"{schema}\".{table} attach partition {name} for values from ('{low}') to ('{high}')"
        )


async def _days(connection: Connection, schema: str) -> set[str]:
    rows = await connection.fetch(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = to_regclass($1)::oid order by 1",
        f'"{schema}".jobs',
    )
    return {match[1] for row in rows if (match := re.fullmatch(r"jobs_(\d{8})", row["relname"]))}


async def drop_old(store: Store, cutoff: datetime) -> int:
    """Drop partitions that end before the cutoff; returns how many jobs went with them. One with many survivors stays, for
    nobody can read or write any history while they are moved: its old jobs are pruned one by one, as elsewhere."""
    async with store.connection() as connection:
        old = [day for day in await _days(connection, store.schema) if _end(day) <= cutoff]
    count = 0
    # By lot, so that those that stay cost little to look at, however many they are.
    for day in random.sample(old, min(len(old), DAYS_LOOKED_AT)):
        try:
            count += await _drop(store, day, cutoff)
        except StoreUnavailable:
            break  # a lock that was not to be had; the next slice tries again
    return count


async def _drop(store: Store, day: str, cutoff: datetime) -> int:
    async with store.transaction() as connection:
        if not await connection.fetchval("select pg_try_advisory_xact_lock($1)", _LOCK):
            return 0
        if day not in await _days(connection, store.schema):
            return 0
        await connection.execute("set local lock_timeout = '2s'; set local statement_timeout = '5min'")
        await connection.execute("create temporary table survivors (id uuid primary key) on commit drop")
        if await _choose(store, connection, day, cutoff) > MOST_SURVIVORS:
            return 0
        parents = ", ".join(f'"{store.schema}".{table}' for table in TABLES)
        await connection.execute(f"lock table {parents} in access exclusive mode")
        # Again, now that none can be retried any more; what this reads was read just before.
        if await _choose(store, connection, day, cutoff) > MOST_SURVIVORS:
            return 0
        return await _take_away(store, connection, day, cutoff)


async def _choose(store: Store, connection: Connection, day: str, cutoff: datetime) -> int:
    """Note the jobs of a day that are not finished, or finished after the cutoff; returns how many, if they are not too many."""
    low, high = first_id_at(_end(day) - timedelta(days=1)), first_id_at(_end(day))
    places = ("ready", "waiting", "running")
    live = " union all ".join(f"select job from taskforge.{one} where fence >= '{low}' and fence < '{high}'" for one in places)
    late = f"select job from taskforge.finished_{day} where finished_at >= '{cutoff.isoformat()}'"
    await connection.execute("truncate survivors")
    count = 0
    # Places are read by their index, whatever the planner thinks of their size; no index leads to those that finished late.
    for scans, chosen in (("off", live), ("on", late)):
        await connection.execute(f"set local enable_seqscan = {scans}")
        some = f"{chosen} limit {MOST_SURVIVORS + 1 - count}"
        # Without the lock, one may finish in between, and be found twice.
        status = await connection.execute(store.in_schema(f"insert into survivors {some} on conflict do nothing"))
        count += int(status.rsplit(" ", 1)[1])
    await connection.execute("analyze survivors")
    return count


async def _take_away(store: Store, connection: Connection, day: str, cutoff: datetime) -> int:
    parts = {table: f'"{store.schema}".{table}_{day}' for table in TABLES}
    for table in TABLES:
        await connection.execute(f'alter table "{store.schema}".{table} detach partition {parts[table]}')
    for table in TABLES:
        column = "id" if table == "jobs" else "job"
        await connection.execute(
            f'insert into "{store.schema}".{table} select * from {parts[table]} where {column} in (select id from survivors)'
        )
    gone = await connection.fetch(
        f"select project, queue, status, count(*) as count from {parts['finished']} where finished_at < $1 group by 1, 2, 3", cutoff
    )
    await connection.executemany(
        store.in_schema("insert into taskforge.tally_deltas (project, queue, status, count) values ($1, $2, $3, $4)"),
        [(row["project"], row["queue"], row["status"], -row["count"]) for row in gone],
    )
    for table in TABLES:
        await connection.execute(f"drop table {parts[table]}")
    return sum(row["count"] for row in gone)


def _end(day: str) -> datetime:
    return datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1)
