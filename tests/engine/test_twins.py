"""Broken twins: an engine with one safeguard taken out must fail the check that guards it. A test that cannot fail proves nothing.

The patches are text edits of the engines' own statements, applied here and nowhere else; one that no longer fits says so.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import HandBack, Retry, Succeed
from tests.engine import (
    test_cancel,
    test_claim,
    test_finish,
    test_keys,
    test_limits,
    test_races,
    test_reading,
    test_state_machine,
    test_upkeep,
)
from tests.engine.sides import Side
from tests.engine.stores import PostgresStore, SqliteStore, Store
from tests.engine.world import ERROR, Clock, World

Check = Callable[[World], Awaitable[None]]
Edits = dict[str, list[tuple[str, str]]]

# --- The checks: tests of this suite, asked to fail ---


async def stale_success(world: World) -> None:
    await test_finish.test_a_stale_fence_changes_nothing_though_the_same_process_has_the_job_again(world, Succeed(b"1"))


async def stale_retry(world: World) -> None:
    late = Retry(0.0, ERROR)
    await test_finish.test_a_stale_fence_changes_nothing_though_the_same_process_has_the_job_again(world, late)


async def cancel_is_stronger(world: World) -> None:
    await test_cancel.test_nothing_that_lets_the_job_live_on_gets_past_a_cancel(world, HandBack("stop"))


async def late_rescue(world: World) -> None:
    await test_upkeep.test_a_rescue_that_comes_too_late_changes_nothing(world)


async def late_ending_rescue(world: World) -> None:
    await test_upkeep.test_a_rescue_of_what_never_lapsed_is_refused_for_every_transition(world)


async def pause_elsewhere(world: World) -> None:
    other = await world.another()
    await test_claim.test_a_pause_holds_from_the_next_claim_on_also_from_another_process(world, other)


async def lease_needed(world: World) -> None:
    await test_claim.test_without_a_lease_there_is_no_claim(world)


async def concurrency_limit(world: World) -> None:
    await test_limits.test_no_more_run_at_once_than_the_queue_allows(world, await world.another())


async def rate_limit(world: World) -> None:
    await test_limits.test_a_rate_limit_lets_through_its_burst_and_then_what_flows(world, await world.another())


async def slots_kept(world: World) -> None:
    await test_claim.test_no_worker_gets_more_than_it_has_slots(world, await world.another())


async def no_job_for_who_leaves(world: World) -> None:
    crowd = test_races.Crowd(world.store, world.engine, world.clock)
    crowd.engines = [world.engine, await world.another(), await world.another()]
    await test_races.test_a_worker_leaves_or_gets_a_job_and_never_both(crowd)


async def skip_is_kept(world: World) -> None:
    await test_claim.test_a_skipped_job_goes_to_other_workers_only(world)


async def late_is_nobodys(world: World) -> None:
    await test_claim.test_a_retry_past_the_deadline_is_nobodys(world)


async def key_released(world: World) -> None:
    await test_keys.test_every_ending_releases_it(world, Succeed())


async def projects_apart(world: World) -> None:
    await test_reading.test_another_projects_jobs_are_invisible_in_every_read_and_change(world)


async def one_place(world: World) -> None:
    await test_claim.test_a_claim_carries_what_the_handler_needs(world)


async def tallies_right(world: World) -> None:
    await world.bring(JobStatus.FAILED)
    await world.probe.check_tallies()


async def limit_under_claimers(world: World) -> None:
    crowd = test_races.Crowd(world.store, world.engine, world.clock)
    crowd.engines = [world.engine, await world.another(), await world.another()]
    for _ in range(3):
        await test_races.test_the_concurrency_limit_holds_under_eight_claimers(crowd)
        await world.probe.forget_jobs()


# --- PostgreSQL: (statement → edits, check) ---

SAME_JOB = "(left({0}::text, 30) || '000000')::uuid"
NO_FENCE = [
    (
        "r.fence = any ($1::uuid[])",
        f"r.job = any (array(select {SAME_JOB.format('f')} from unnest($1::uuid[]) as f))",
    ),
    ("on i.fence = g.fence", "on left(i.fence::text, 30) = left(g.fence::text, 30)"),
    ("from paired where fence is null", "from paired where false"),
]
LEASE = "and exists (select from taskforge.workers where incarnation = $1 and lease_until > (select now from clock))"
SKIP = ("and (ready.skipped is null or $5 <> all (ready.skipped))", "and $5::uuid is not null")
LATE = ("and (ready.until is null or ready.until > (select now from clock))", "")
PLACES = "array(select place from chosen limit coalesce((select room from holder), 0))"
MOVE = f"delete from taskforge.ready where ctid = any ({PLACES}) returning *"
ROOM = (
    "taskforge.take_room($1, (select now from clock), $17, $18)",
    "(select 1000 + 0 * $17::int as room, $18::timestamptz as busy_since)",
)
POSTGRES: dict[str, tuple[Edits, Check]] = {
    "ends without fence": ({"end": NO_FENCE}, stale_success),
    # The history's own key would refuse a second execution of one epoch; it is taken out as well.
    "lives on without fence": (
        {"again": [*NO_FENCE, ("error::json, reason from moved", "error::json, reason from moved on conflict do nothing")]},
        stale_retry,
    ),
    "a cancel is forgotten": ({"again": [("and not r.cancel_requested", "")]}, cancel_is_stronger),
    "rescues without looking again": ({"again": [("(not $17 or", "(not $17 or $17 or")]}, late_rescue),
    "ends lapsed without looking again": ({"end": [("(not $11 or", "(not $11 or $11 or")]}, late_ending_rescue),
    "an old catalog is good enough": (
        {"claim": [("(select version from taskforge.catalog) = $2", "$2::bigint is not null")]},
        pause_elsewhere,
    ),
    "claims without a lease": ({"claim": [(LEASE, ""), ROOM], "claim_doubt": []}, lease_needed),
    "slots are not counted": ({"claim": [ROOM]}, slots_kept),
    "claims do not hold their worker": ({"claim": [ROOM]}, no_job_for_who_leaves),
    "running jobs are not counted": ({"count_gates": [("count(*) as running", "0 as running")]}, concurrency_limit),
    "the rate is not remembered": (
        {"lock_gates": [("select queue, tokens,", "select queue, null::float8 as tokens,")]},
        rate_limit,
    ),
    "limits are read without a lock": ({"lock_gates": [("for update skip locked", "")]}, limit_under_claimers),
    "skips are forgotten": (
        {"claim_one": [SKIP], "claim_many": [SKIP]},
        skip_is_kept,
    ),
    "what is late is handed out": ({"claim_one": [LATE]}, late_is_nobodys),
    "claimed jobs stay ready": ({"claim": [(MOVE, MOVE[:-12].replace("delete", "select *"))]}, one_place),
    "keys are not released": ({"end": [("where keyed)", "where false)")]}, key_released),
    "endings are counted twice": (
        {"end": [("status, count(*) from ended group by 1, 2, 3", "status, 2 * count(*) from ended group by 1, 2, 3")]},
        tallies_right,
    ),
}

# --- SQLite ---

HELD = "r.fence = substr(?1, i.key * 16 + 1, 16)"
HELD_BY_JOB = "substr(r.fence, 1, 13) = substr(?1, i.key * 16 + 1, 13)"
SQLITE: dict[str, tuple[Edits, Check]] = {
    "ends without fence": (
        {
            "claims_held": [(HELD, HELD_BY_JOB)],
            "end_alike": [(HELD, HELD_BY_JOB)],
            "leave_running": [
                ("where fence in", "where substr(fence, 1, 13) in"), ("i.key * 16 + 1, 16)", "i.key * 16 + 1, 13)"),
            ],
        },
        stale_success,
    ),
    "slots are not counted": ({"running_of": [("count(*)", "0 * count(*)")]}, slots_kept),
    "a cancel is forgotten": ({"claims_held": [("r.cancel_requested", "0")]}, cancel_is_stronger),
    "rescues without looking again": ({"claims_lapsed": [("where r.timeout_at", "where ?3 or r.timeout_at")]}, late_rescue),
    "the rate is not remembered": ({"save_gate": [("?2, ?3", "1e9, ?3")]}, rate_limit),
    "keys are not released": ({"free_keys": [("scope = 0", "scope = 9")]}, key_released),
    "endings are counted twice": ({"tally": [("values (?, ?, ?, ?)", "values (?, ?, ?, 2 * ?)")]}, tallies_right),
}  # fmt: skip


def break_statements(monkeypatch: pytest.MonkeyPatch, module: str, edits: Edits) -> None:
    loader = importlib.import_module(module)
    whole: Callable[[str, str], str] = loader.statement
    package = module.rpartition(".")[0]
    # Looked at here, before anybody expects a check to fail: a twin that broke nothing would be caught by this very assertion.
    for name, replaced in edits.items():
        for old, _ in replaced:
            assert old in whole(package, name), f"the twin no longer fits {name}.sql: {old}"

    def broken(package: str, name: str) -> str:
        text = whole(package, name)
        for old, new in edits.get(name, []):
            text = text.replace(old, new)
        return text

    monkeypatch.setattr(loader, "statement", broken)


@pytest.fixture
async def hospital() -> AsyncIterator[list[Store]]:
    """Stores whose engines are broken: they are closed, and nobody looks whether their invariants hold."""
    stores: list[Store] = []
    yield stores
    for store in stores:
        await store.close()


async def open_world(store: Store, hospital: list[Store], *, real_time: bool = False) -> World:
    hospital.append(store)
    clock = Clock()
    world = World(store, await store.open(None if real_time else clock), clock)
    if real_time:
        world.another = lambda: store.open(None)  # type: ignore[method-assign]
    await world.queue("default")
    return world


@pytest.mark.parametrize("twin", POSTGRES)
async def test_a_broken_postgres_engine_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], postgres_url: str, twin: str
) -> None:
    edits, check = POSTGRES[twin]
    break_statements(monkeypatch, "taskforge.storage.postgres.store", edits)
    real_time = check in (limit_under_claimers, no_job_for_who_leaves)
    world = await open_world(PostgresStore(postgres_url), hospital, real_time=real_time)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(world)


@pytest.mark.parametrize("twin", SQLITE)
async def test_a_broken_sqlite_engine_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path, twin: str
) -> None:
    edits, check = SQLITE[twin]
    break_statements(monkeypatch, "taskforge.storage.sqlite.keeper", edits)
    world = await open_world(SqliteStore(tmp_path), hospital)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(world)


async def test_sqlite_with_an_old_catalog_is_caught(monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path) -> None:
    from taskforge.storage.sqlite.keeper import Keeper, Reach

    newest, right = Keeper.current, Keeper.reach

    def reach(keeper: Keeper, incarnation: UUID, now: int) -> Reach:
        with monkeypatch.context() as claiming:
            claiming.setattr(Keeper, "current", lambda keeper: keeper._catalog or newest(keeper))
            return right(keeper, incarnation, now)

    monkeypatch.setattr(Keeper, "reach", reach)
    with pytest.raises(AssertionError):
        await pause_elsewhere(await open_world(SqliteStore(tmp_path), hospital))


async def test_sqlite_without_limits_is_caught(monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path) -> None:
    from taskforge.storage.sqlite.gates import Gates

    monkeypatch.setattr(Gates, "room", lambda _, __, wanted: wanted)
    with pytest.raises(AssertionError):
        await concurrency_limit(await open_world(SqliteStore(tmp_path), hospital))


async def test_postgres_that_shows_every_projects_jobs_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], postgres_url: str
) -> None:
    from taskforge.storage.postgres.store import Store as PostgresParts

    right = PostgresParts.in_schema
    predicate, none = "project = any ($2::int[])", "$2::int[] is not null"
    monkeypatch.setattr(PostgresParts, "in_schema", lambda parts, text: right(parts, text).replace(predicate, none))
    with pytest.raises(AssertionError):
        await projects_apart(await open_world(PostgresStore(postgres_url), hospital))


# --- The state machine finds what no single rule was written for ---

FOUND_BY_THE_MACHINE: list[tuple[str, Edits]] = [
    ("postgres", {"again": [("when p.crashed then p.crashes + 1", "when p.crashed then p.crashes")]}),
    ("postgres", {"stage": [("order by due, fence", "order by due desc, fence")]}),
    ("postgres", {"end": [("where keyed)", "where false)")]}),
    ("sqlite", {"claims_held": [("r.cancel_requested", "0")]}),
    ("sqlite", {"beat": [("progress = coalesce(?3, progress)", "progress = ?3")]}),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("engine", "edits"), FOUND_BY_THE_MACHINE, ids=[f"{e}-{next(iter(s))}" for e, s in FOUND_BY_THE_MACHINE])
def test_the_machine_finds_a_broken_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest, engine: str, edits: Edits
) -> None:
    kinds: dict[str, tuple[str, Callable[[], Store]]] = {
        "sqlite": ("taskforge.storage.sqlite.keeper", lambda: SqliteStore(tmp_path, durable=False)),
        "postgres": ("taskforge.storage.postgres.store", lambda: PostgresStore(request.getfixturevalue("postgres_url"))),
    }
    module, make = kinds[engine]
    break_statements(monkeypatch, module, edits)
    store = make()

    class Alone(test_state_machine.EnginesAgree):
        pass

    async def start() -> list[Any]:
        return [Side(store, await store.open(Alone.clock))]

    with asyncio.Runner() as runner:
        Alone.runner, Alone.clock = runner, Clock()
        Alone.sides = runner.run(start())
        with pytest.raises(AssertionError):
            test_state_machine.run(Alone, 1_000, 50)
        runner.run(store.close())
