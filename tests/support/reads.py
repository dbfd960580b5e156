"""What was read in a store, in counts that do not depend on the machine."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.stores import PostgresStore

WIDE = ("jobs", "ready", "waiting", "finished", "executions", "logs", "keys", "job_tags")


async def touched(store: PostgresStore) -> Counter[tuple[str, str]]:
    """Sequential scans of each table, and rows read through its indexes. Sessions report them when
    they end, at the latest; this one, which tests write with, does so now: what it keeps for later
    would be counted for whoever is looked at then."""
    await store.probe.rows("select pg_stat_force_next_flush()")
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


def count_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Of the virtual machines of all SQLite connections that are opened from now on, in
    hundreds."""
    from taskforge.storage.sqlite import connections

    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    right: Any = sqlite3.connect

    def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = right(*arguments, **options)
        connection.set_progress_handler(step, 100)
        return connection

    monkeypatch.setattr(connections.sqlite3, "connect", counted)
    return lambda: steps
