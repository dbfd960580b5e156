"""What was read in a PostgreSQL store, table by table."""

import re
from collections import Counter

from tests.support.stores import PostgresStore

WIDE = ("jobs", "ready", "waiting", "finished", "executions", "logs", "keys", "job_tags")


async def touched(store: PostgresStore) -> Counter[tuple[str, str]]:
    """Sequential scans of each table, and rows read through its indexes. Sessions report them when
    they end, at the latest."""
    await store.probe.rows("select pg_stat_clear_snapshot()")
    index_reads = (
        "select coalesce(sum(i.idx_tup_read), 0) from pg_stat_user_indexes i where "
        "i.relid = t.relid"
    )
    rows = await store.probe.rows(
        f"select t.relname, t.seq_scan, ({index_reads}) from pg_stat_user_tables t where "
        f"t.schemaname = '{store.schema}'"
    )
    found: Counter[tuple[str, str]] = Counter()
    for name, scans, read in rows:
        [table] = [table for table in WIDE if re.fullmatch(rf"{table}(_rest|_p?\d+)?", name)] or [
            name
        ]
        found[table, "scans"] += scans or 0
        found[table, "read"] += int(read)
    return found
