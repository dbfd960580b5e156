"""Every statement of a record is understood by both engines."""

import re
import sqlite3
from contextlib import closing
from typing import Any

import asyncpg

from taskforge.storage.sqlite.numbered import CONNECTION
from taskforge.storage.statements import SHARED, statement, statements_of
from tests.support.stores import PostgresStore, SqliteStore, Store

ENGINES = [f"{SHARED}.{engine}" for engine in ("postgres", "sqlite")]
# Those that each engine has.
OWN = {
    "audit_entries_to_seal",
    "bytes_of_executions",
    "bytes_of_jobs",
    "bytes_of_logs",
    "hold_term",
    "known_keys",
    "renew_term",
}


def names() -> list[str]:
    files = {name for name in statements_of(SHARED) if not name.startswith("test_")}
    return sorted(files | OWN)


def values_of(text: str) -> int:
    return max((int(number) for number in re.findall(r"[$?](\d+)", text)), default=0)


async def test_both_engines_understand_every_statement_of_a_record(
    store: Store, engine: Any
) -> None:
    assert len(names()) > 50
    if isinstance(store, PostgresStore):
        connection = await asyncpg.connect(store.url)
        try:
            for name in names():
                text = statement(ENGINES[0], name).replace("taskforge.", f"{store.schema}.")
                prepared = await connection.prepare(text)
                assert len(prepared.get_parameters()) == values_of(text), name
        finally:
            await connection.close()
        return
    assert isinstance(store, SqliteStore)
    from taskforge.storage.sqlite.records import text_of

    with closing(sqlite3.connect(store.path, factory=CONNECTION)) as file:
        for name in names():
            text = text_of(name)
            file.execute(f"explain {text}", [None] * values_of(text))


def test_a_shared_statement_is_not_hidden_by_one_of_an_engine() -> None:
    shared = set(names()) - OWN
    for engine in ENGINES:
        assert shared & set(statements_of(engine)) == set()
        assert set(statements_of(engine)) >= OWN
