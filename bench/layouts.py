"""Three ways to lay out jobs on PostgreSQL, with the columns and indexes of the real schema and the
same raw claim and finish.

Nothing but the layout differs: no fence, no limits, no rollups, no events, no partitions; claims
pinned to index and tid scans; two connections; a result kept for each job.
"""

import asyncio
import time
from typing import Any

import asyncpg
import msgspec

from bench.grounds import PINNED, PostgresGround
from bench.report import Report
from bench.sizes import Sizes
from taskforge.storage.postgres.connections import SESSION

BATCH = 1_000
LOOPS = 2

# What each layout keeps of a job besides its facts, wherever it keeps it.
_STATE = """
    fence uuid, lane int not null, attempt int not null, crashes int not null, keyed boolean not
        null, turn bigint not null,
    until timestamptz, skipped uuid[], worker uuid, batch bigint, cancel_requested boolean,
        claimed_at timestamptz,
    timeout_at timestamptz, beat_by timestamptz, beat_seconds double precision, gate int, started_at
        timestamptz,
    heartbeat_at timestamptz, progress real, message text
"""
_END = "epoch int, finished_at timestamptz, result json, error json, reason text"
_IDS = "(lpad(to_hex(i), 12, '0') || '70008' || lpad(to_hex(i), 9, '0') || '000001')::uuid"
_NAMES = "id, project, queue, job_type, priority, max_attempts, payload"
_SOURCE = f"""select {_IDS} as id, 1 as project, 1 as queue, 'noop'::text as job_type,
    0::smallint as priority, 3 as max_attempts,
    '{{"customer": 4711, "template": "welcome"}}'::json as payload, i
    from generate_series($1::bigint, $2::bigint) as i"""
_HEAD = (
    "where lane = 1 and turn > 0 and (skipped is null) order by turn limit $1 for update "
    "skip locked"
)


class Layout(msgspec.Struct, frozen=True):
    name: str
    tables: str
    fill: str
    claim: str
    finish: str  # $1 ids, $2 results
    # An update must look its rows up one by one: as a hash join it reads the whole table. What a
    # delete returned must be hashed.
    nests: str = "off"


LAYOUTS = (
    Layout(
        "one table, claim and finish are updates",
        f"""
        create table layout.jobs (like {{schema}}.jobs including defaults, status smallint not null,
            {_STATE}, {_END})
            with (fillfactor = 70);
        alter table layout.jobs add primary key (id);
        create index on layout.jobs (queue, id);
        create index on layout.jobs (lane, turn) where status = 0;
        create index on layout.jobs (queue, id) where status > 3;
        """,
        f"""insert into layout.jobs ({_NAMES}, status, fence, lane, attempt, crashes, keyed, turn)
            select {_NAMES}, 0, id, 1, 0, 0, false, i from ({_SOURCE}) j""",
        f"""update layout.jobs set status = 2, attempt = attempt + 1,
            worker = id, batch = 1, claimed_at = now(),
                timeout_at = now() + interval '5 minutes'
            where ctid = any (array(select ctid from layout.jobs
            {_HEAD.replace("where", "where status = 0 and")}))
            returning id, payload, attempt""",
        """update layout.jobs j set status = 3, epoch = 1, started_at = now(),
            finished_at = now(), result = i.result::json
            from unnest($1::uuid[], $2::text[]) as i (id, result) where j.id = i.id and j.status =
                2""",
        nests="on",
    ),
    Layout(
        "facts once, narrow places, history appended (ours)",
        """
        create table layout.jobs (like {schema}.jobs including all);
        create table layout.ready (like {schema}.ready including all) with (fillfactor = 90);
        create table layout.running (like {schema}.running including all) with (fillfactor = 80);
        create table layout.finished (like {schema}.finished including all);
        """,
        f"""with given as materialized ({_SOURCE}),
            facts as (insert into layout.jobs ({_NAMES}) select {_NAMES} from given)
            insert into layout.ready (fence, job, project, lane, attempt, max_attempts, crashes,
                keyed, turn)
            select id, id, project, 1, 0, max_attempts, 0, false, i from given""",
        f"""with moved as (
                delete from layout.ready where ctid = any (array(select ctid from layout.ready
                    {_HEAD})) returning *
            ),
            placed as (
                insert into layout.running (fence, job, project, lane, queue, worker, attempt,
                    max_attempts, crashes, keyed, turn,
                    batch, claimed_at, timeout_at, timeout_seconds)
                select fence, job, project, lane, 1, job, attempt + 1, max_attempts, crashes, keyed,
                    turn, 1, now(),
                    now() + interval '5 minutes', 300
                from moved
            )
            select m.job, j.payload, m.attempt + 1
            from moved m cross join lateral (select payload from layout.jobs where id = m.job limit
                1) j""",
        """with gone as (delete from layout.running where fence = any ($1::uuid[]) returning *)
            insert into layout.finished (job, queue, project, status, epoch, attempt, max_attempts,
                crashes, worker, claimed_at,
                started_at, finished_at, result)
            select g.job, 1, g.project, 3, 1, g.attempt, g.max_attempts, g.crashes, g.worker,
                g.claimed_at, now(), now(),
                i.result::json
            from gone g join unnest($1::uuid[], $2::text[]) as i (fence, result) on i.fence =
                g.fence""",
    ),
    Layout(
        "whole row hot, deleted and appended to history",
        f"""
        create table layout.hot (like {{schema}}.jobs including defaults, status smallint not null,
            {_STATE})
            with (fillfactor = 70);
        alter table layout.hot add primary key (id);
        create index on layout.hot (queue, id);
        create index on layout.hot (lane, turn) where status = 0;
        create table layout.history (like layout.hot including defaults, {_END});
        alter table layout.history add primary key (queue, id);
        create index on layout.history (id);
        create index on layout.history (queue, id) where status > 3;
        """,
        f"""insert into layout.hot ({_NAMES}, status, fence, lane, attempt, crashes, keyed, turn)
            select {_NAMES}, 0, id, 1, 0, 0, false, i from ({_SOURCE}) j""",
        f"""update layout.hot set status = 2, attempt = attempt + 1,
            worker = id, batch = 1, claimed_at = now(),
                timeout_at = now() + interval '5 minutes'
            where ctid = any (array(select ctid from layout.hot
            {_HEAD.replace("where", "where status = 0 and")}))
            returning id, payload, attempt""",
        """with gone as (delete from layout.hot where id = any ($1::uuid[]) returning *)
            insert into layout.history
            select g.*, 1, now(), i.result::json, null, null
            from gone g join unnest($1::uuid[], $2::text[]) as i (id, result) on i.id = g.id""",
    ),
)


async def compare(ground: PostgresGround, sizes: Sizes, report: Report) -> None:
    found: dict[str, list[tuple[float, float, float]]] = {layout.name: [] for layout in LAYOUTS}
    async with ground.site() as site:
        for _ in range(sizes.rounds):
            for layout in LAYOUTS:
                found[layout.name].append(await measure(ground, layout, site.schema, sizes.layouts))
                fill, rate, wal = found[layout.name][-1]
                report.say(
                    f"layout: {layout.name}: insert {fill:,.0f}/s, claim + finish {rate:,.0f}/s, "
                    f"{wal:,.0f} B of WAL a job"
                )
    rows: list[dict[str, Any]] = []
    for name, runs in found.items():
        fill, rate, wal = (sorted(values)[len(values) // 2] for values in zip(*runs, strict=True))
        rows.append(
            {"layout": name, "insert/s": fill, "claim + finish/s": rate, "WAL bytes a job": wal}
        )
    report.table(
        f"postgres, layouts, {sizes.layouts:,} jobs in batches of {BATCH:,}, {LOOPS} connections",
        rows,
    )


async def measure(
    ground: PostgresGround, layout: Layout, schema: str, count: int
) -> tuple[float, float, float]:
    """Inserts a second, claimed and finished jobs a second, and bytes of write-ahead log for each
    of the latter."""
    session = SESSION | PINNED | {"enable_nestloop": layout.nests}
    connections = [
        await asyncpg.connect(ground.server.url(), server_settings=session) for _ in range(LOOPS)
    ]
    try:
        first = connections[0]
        await first.execute("create schema layout;" + layout.tables.format(schema=schema))
        await first.execute("analyze")
        started = time.perf_counter()
        for start in range(1, count, BATCH):
            await first.execute(layout.fill, start, start + BATCH - 1)
        fill = count / (time.perf_counter() - started)
        await first.execute("checkpoint")
        before = await first.fetchval("select pg_current_wal_insert_lsn()")
        started = time.perf_counter()
        done = sum(await asyncio.gather(*(drain(connection, layout) for connection in connections)))
        took = time.perf_counter() - started
        wal = await first.fetchval(
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)", before
        )
        assert done == count, f"{done} of {count} jobs came through"
        return fill, count / took, float(wal) / count
    finally:
        await connections[0].execute("drop schema if exists layout cascade")
        for connection in connections:
            await connection.close()


async def drain(connection: asyncpg.Connection, layout: Layout) -> int:
    done = 0
    while rows := await connection.fetch(layout.claim, BATCH):
        status = await connection.execute(
            layout.finish, [row[0] for row in rows], ['{"sent":true}'] * len(rows)
        )
        done += int(status.rsplit(" ", 1)[1])
    return done
