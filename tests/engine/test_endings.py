"""Every way in which a job can end, and everything that its end brings about, as the table of
docs/design/endings.md says. A new way is a row there and an entry of WAYS in
tests/support/ways_to_end.py; a new effect is a column there and a look in
tests/support/endings.py."""

from pathlib import Path

import pytest

from tests.support.broken import MODULES, Edits, break_statements, misfits
from tests.support.endings import AFTERWARDS, EFFECTS, read_table
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.ways_to_end import WAYS, end
from tests.support.world import Clock, World

TABLE = read_table()


def test_the_table_has_a_row_for_each_way_and_a_column_for_each_effect() -> None:
    assert list(TABLE) == list(WAYS)
    assert list(TABLE["succeed"]) == [*EFFECTS, AFTERWARDS]


@pytest.mark.parametrize("way", WAYS)
async def test_an_end_brings_about_what_the_table_says(world: World, way: str) -> None:
    assert await end(world, WAYS[way]) == TABLE[way]


# --- Broken twins: a statement that forgets one effect, and the columns that show it ---


def nothing(text: str) -> tuple[str, str]:
    """An edit of `text`, after which its statement writes or removes nothing."""
    if " values (" in text:  # of SQLite, with one question mark for each value
        head, marks = text.rstrip(")").split(" values (")
        return text, f"{head} select {marks} where 0"
    if text.endswith(" where"):
        return text, f"{text} 1 = 0 and"
    head, by, grouped = text.partition(" group by")
    return text, f"{head} where 1 = 0{by}{grouped}"


# The way that shows it → (columns → edits of the statements that the way goes through)
Twins = dict[str, dict[str, Edits]]
POSTGRES: Twins = {
    "fail for good": {
        "tally": {"end": [nothing("from ended group by 1, 2, 3")]},
        "rollup, worker total": {"end": [nothing("from ended group by project, queue, lane")]},
        "event": {"end": [nothing("from ended group by project, queue, status")]},
        "failure": {"end": [("progress, message, failure\n", "progress, message, null::uuid\n")]},
        "limiter": {"end": [("and status <> 5 and exists", "and status > 5 and exists")]},
        "keys": {"end": [("from ended where keyed", "from ended where not keyed")]},
        "facts": {"end": [("else reason end", "else null end")]},
    },
    "dead letter": {
        "execution, log": {
            "again": [
                ("error::json, reason from moved", "error::json, reason from moved where false")
            ]
        },
        "rollup, worker total": {"again": [nothing("from moved group by project, old_queue")]},
        "limiter": {"again": [("and status <> 5 and exists", "and status < 5 and exists")]},
        "keys": {"again": [("where keyed and new_queue is not", "where keyed and new_queue is")]},
        "origin": {"again": [("coalesce(j.origin_queue, j.queue)", "j.origin_queue")]},
        "failure": {
            "again": [("where m.failure is not null", "where m.failure is not null and false")]
        },
    },
    "expire while pending": {
        "failure": {"end_waiting": [("where $12 is not null", "where $12 is null")]},
    },
    "cancel while pending": {
        "tally": {"end_waiting": [("values ($4, $3, $5, 1)", "select $4, $3, $5, 1 where false")]},
        "event": {
            "end_waiting": [
                ("values ($4, 'job.'", "select $4, 'job.'"),
                (
                    "coalesce($11::timestamptz, statement_timestamp()))\n)",
                    "$11::timestamptz where false\n)",
                ),
            ]
        },
        "keys": {"end_waiting": [nothing("delete from taskforge.keys where")]},
    },
    "delete": {
        "tally": {"remove": [nothing("from unfinished group by 1, 2, 3")]},
        "execution, log": {"remove": [nothing("delete from taskforge.executions where")]},
        "log": {"remove": [nothing("delete from taskforge.logs where")]},
        "tags": {"remove": [("and t.job = j.id", "and t.job <> j.id")]},
        "keys": {"remove": [nothing("delete from taskforge.keys where")]},
    },
}
TALLY: Edits = {"tally": [nothing("(project, queue, status, count) values (?, ?, ?, ?)")]}
EVENT: Edits = {"event": [nothing("(project, topic, queue, at, jobs) values (?, ?, ?, ?, ?)")]}
ROLLUP: Edits = {
    "rollup": [
        (
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            "select ?, ?, ?, ?, ?, ?, ?, ?, ? where 0",
        )
    ]
}
FAILURE: Edits = {
    "failure": [
        (
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            "select ?, ?, ?, ?, ?, ?, ?, ?, ?, ? where 0",
        )
    ]
}
NEWS: Edits = {"gate_delta": [nothing("(queue, good, bad) values (?, ?, ?)")]}
KEYS: Edits = {"free_keys": [nothing("delete from keys where")]}
SQLITE: Twins = {
    "fail for good": {
        "tally": TALLY,
        "event": EVENT,
        "rollup, worker total": ROLLUP,
        "limiter": NEWS,
        "keys, retried": KEYS,  # what still holds its key cannot take it again
        "facts": {"end": [("else i.value ->> 5 end", "else null end")]},
        "failure": FAILURE,
    },
    "succeed": {"tally": TALLY, "event": EVENT, "rollup, worker total": ROLLUP, "keys": KEYS},
    "dead letter": {
        "execution, log": {
            "add_execution": [
                (
                    "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    "select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? where 0",
                )
            ]
        },
        "rollup, worker total": ROLLUP,
        "limiter": NEWS,
        "keys": KEYS,
        "origin": {"bury": [("coalesce(origin_queue, queue)", "origin_queue")]},
        "failure": {"bury": [("buried_failure = ?5", "buried_failure = nullif(?5, ?5)")]},
    },
    "expire while pending": {
        "failure": {"group_failure": [("where queue = ?2", "where ?1 is null and queue = ?2")]}
    },
    "cancel while pending": {"tally": TALLY, "event": EVENT, "keys, retried": KEYS},
    "delete": {
        "tally": TALLY,
        "execution, log": {"remove_executions": [nothing("delete from executions where")]},
        "log": {"remove_logs": [nothing("delete from logs where")]},
        "tags": {"remove_tag": [nothing("delete from job_tags where")]},
        "keys": {"remove_keys": [nothing("delete from keys where")]},
    },
}
TWINS = {
    f"{engine}: {way}, no {columns}": (engine, way, columns, edits)
    for engine, ways in (("postgres", POSTGRES), ("sqlite", SQLITE))
    for way, twins in ways.items()
    for columns, edits in twins.items()
}


@pytest.mark.parametrize("twin", TWINS)
async def test_an_effect_that_is_forgotten_is_missed(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path, twin: str
) -> None:
    engine, way, columns, edits = TWINS[twin]
    break_statements(monkeypatch, MODULES[engine], edits)
    store: Store = (
        SqliteStore(tmp_path)
        if engine == "sqlite"
        else PostgresStore(request.getfixturevalue("postgres_url"))
    )
    try:
        clock = Clock()
        row = await end(World(store, await store.open(clock), clock), WAYS[way])
    finally:
        await store.close()
    told = {name for name, cell in row.items() if cell != TABLE[way][name]}
    assert told == set(columns.split(", "))


def test_every_twin_of_an_ending_fits() -> None:
    """A statement was edited where a twin breaks it: give the twin the words that it has now."""
    told = [
        f"{twin}: {why}"
        for twin, (engine, *_, edits) in TWINS.items()
        for why in misfits(MODULES[engine], edits)
    ]
    assert not told, "these twins no longer fit:\n" + "\n".join(told)
