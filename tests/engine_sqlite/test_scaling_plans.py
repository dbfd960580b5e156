"""Statements of scaling find their rows by an index: a leader reads and prunes for all tenants
every few seconds, and what became of policies is kept for 90 days."""

import sqlite3
from contextlib import closing
from pathlib import Path

from taskforge.storage.sqlite.numbered import CONNECTION
from taskforge.storage.sqlite.records import text_of
from tests.engine.test_record_statements import names, values_of
from tests.support.stores import SqliteStore
from tests.support.world import Clock

STATEMENTS = [name for name in names() if "scaling" in name or name == "other_policy_of_provider"]


async def test_every_statement_of_scaling_goes_by_an_index(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    engine = await store.open(Clock())
    await engine.close()
    assert len(STATEMENTS) > 15
    with closing(sqlite3.connect(store.path, factory=CONNECTION)) as file:
        for name in STATEMENTS:
            text = text_of(name)
            plan = [
                str(row[3])
                for row in file.execute(f"explain query plan {text}", [None] * values_of(text))
            ]
            assert not [line for line in plan if line.startswith("SCAN")], (name, plan)
            # the newest of a project or of a queue, and the oldest of all, in the index's order
            if name.startswith(("scaling_history", "remove_old_scaling")):
                assert "USE TEMP B-TREE FOR ORDER BY" not in plan, (name, plan)
