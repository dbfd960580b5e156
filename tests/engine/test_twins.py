"""Broken twins: an engine with one safeguard taken out must fail the check that guards it. A test
that cannot fail proves nothing.

The patches are text edits of the engines' own statements, applied here and nowhere else. One that
no longer fits is named by a test of its own, and proves nothing until it is mended: what an edit
broke is for the real tests to say.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from taskforge.domain.errors import QueuePaused
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import ToHandBack, ToRetry, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.storage.postgres.engine import PostgresEngine
from tests.engine import (
    test_beat_and_log,
    test_cancel,
    test_claim,
    test_fairness,
    test_finish,
    test_keys,
    test_limits,
    test_pruning,
    test_races,
    test_reading,
    test_state_machine,
    test_upkeep,
    test_urgency,
)
from tests.engine_postgres import test_durability, test_meanwhile
from tests.support.broken import MODULES, Edits, break_statements, misfits
from tests.support.sides import Side
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.world import ERROR, Clock, World

Check = Callable[[World], Awaitable[None]]

# --- The checks: tests of this suite, asked to fail ---


async def stale_success(world: World) -> None:
    await test_finish.test_a_stale_fence_changes_nothing_though_the_same_process_has_the_job_again(
        world, ToSucceeded(b"1")
    )


async def stale_retry(world: World) -> None:
    late = ToRetry(0.0, ERROR)
    await test_finish.test_a_stale_fence_changes_nothing_though_the_same_process_has_the_job_again(
        world, late
    )


async def cancel_is_stronger(world: World) -> None:
    await test_cancel.test_nothing_that_lets_the_job_live_on_gets_past_a_cancel(
        world, ToHandBack("stop")
    )


async def late_rescue(world: World) -> None:
    await test_upkeep.test_a_rescue_that_comes_too_late_changes_nothing(world)


async def late_ending_rescue(world: World) -> None:
    await test_upkeep.test_a_rescue_of_what_never_lapsed_is_refused_for_every_transition(world)


async def pause_elsewhere(world: World) -> None:
    other = await world.another()
    await test_claim.test_a_pause_holds_from_the_next_claim_on_also_from_another_process(
        world, other
    )


async def lease_needed(world: World) -> None:
    await test_claim.test_without_a_lease_there_is_no_claim(world)


async def concurrency_limit(world: World) -> None:
    await test_limits.test_no_more_run_at_once_than_the_queue_allows(world, await world.another())


async def rate_limit(world: World) -> None:
    await test_limits.test_a_rate_limit_lets_through_its_burst_and_then_what_flows(
        world, await world.another()
    )


async def slots_kept(world: World) -> None:
    await test_claim.test_no_worker_gets_more_than_it_has_slots(world, await world.another())


async def no_job_for_who_leaves(world: World) -> None:
    crowd = test_races.Crowd(world.store, world.engine, world.clock)
    crowd.engines = [world.engine, await world.another(), await world.another()]
    await test_races.test_a_worker_leaves_or_gets_a_job_and_never_both(crowd)


async def keys_take_turns(world: World) -> None:
    await test_fairness.test_a_flood_of_one_key_lets_the_others_have_their_turns(world)


async def keys_are_kept(world: World) -> None:
    await test_fairness.test_a_job_that_lives_on_keeps_its_key(world)


async def keys_are_limited(world: World) -> None:
    await test_fairness.test_no_more_of_a_key_run_at_once_than_its_queue_allows(world)


async def keys_run_in_order(world: World) -> None:
    await test_fairness.test_one_at_a_time_is_in_order_whatever_comes_of_a_job(world)


async def turns_are_remembered(world: World) -> None:
    await test_fairness.test_priorities_go_before_turns_and_each_key_by_age(world)


async def jobs_rise(world: World) -> None:
    await test_urgency.test_of_one_lane_some_go_as_of_a_better_tier_than_the_rest(world)


async def jobs_wait_their_pace(world: World) -> None:
    await test_urgency.test_jobs_wait_by_their_priority_while_more_are_ready_than_slots_are_free(
        world
    )


async def what_is_held_stays(world: World) -> None:
    await test_urgency.test_what_was_held_back_is_not_forgotten(world)


async def what_runs_takes_slots(world: World) -> None:
    await test_urgency.test_they_start_at_once_when_the_project_is_not_loaded_or_no_longer(world)


async def explanations_put_in_line(world: World) -> None:
    await test_urgency.test_claims_go_in_the_order_that_explanations_tell(world, 3)


async def skip_is_kept(world: World) -> None:
    await test_claim.test_a_skipped_job_goes_to_other_workers_only(world)


async def late_is_nobodys(world: World) -> None:
    await test_claim.test_a_retry_past_the_deadline_is_nobodys(world)


async def key_released(world: World) -> None:
    await test_keys.test_every_ending_releases_it(world, ToSucceeded())


async def projects_apart(world: World) -> None:
    await test_reading.test_another_projects_jobs_are_invisible_in_every_read_and_change(world)


async def one_place(world: World) -> None:
    await test_claim.test_a_claim_carries_what_the_handler_needs(world)


async def tallies_right(world: World) -> None:
    await world.bring(JobStatus.FAILED)
    await world.probe.check_tallies()


async def start_counts_once(world: World) -> None:
    await test_beat_and_log.test_the_start_counts_once_and_moves_the_timeout(world)


async def keys_apart(world: World) -> None:
    await test_keys.test_another_projects_key_says_nothing_about_a_job_that_is_refused(
        world, test_keys.pause, QueuePaused
    )


async def unfinished_stay(world: World) -> None:
    await test_pruning.prune(world, 30)  # which makes PostgreSQL's partitions
    await test_pruning.test_old_history_goes_and_the_unfinished_stay(world)


async def history_kept_longer(world: World) -> None:
    await test_pruning.prune(world, 30)
    await test_pruning.test_a_queue_may_keep_its_history_shorter_or_longer(world)


async def retried_is_not_pruned(world: World) -> None:
    await test_pruning.test_a_job_that_is_retried_while_it_is_pruned_keeps_all_it_has(
        world, await world.another(), ends=True
    )


async def first_origin_kept(world: World) -> None:
    await test_finish.test_the_first_origin_is_kept_through_a_chain(world)


async def key_outlives_its_job(world: World) -> None:
    await test_pruning.test_an_idempotency_key_holds_for_its_time_though_its_job_is_gone(world)


async def due_in_order(world: World) -> None:
    await test_upkeep.test_due_jobs_become_pending_in_the_order_of_their_time(world)


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
LEASE = (
    "and exists (select from taskforge.workers where incarnation = $1 and lease_until > "
    "(select now from clock))"
)
SKIP = ("(ready.skipped is null or not ready.skipped && array[$5, $1])", "$5::uuid is not null")
LATE = ("and (ready.until is null or ready.until > (select now from clock))", "")
PLACES = "array(select place from chosen limit coalesce((select room from holder), 0))"
MOVE = f"delete from taskforge.ready where ctid = any ({PLACES}) returning *"
ROOM = (
    "taskforge.take_room($1, (select now from clock), $17, $18)",
    "(select 1000 + 0 * $17::int as room, $18::timestamptz as busy_since)",
)


def of_claims(*edits: tuple[str, str]) -> Edits:
    return {name: list(edits) for name in ("claim_one", "claim_some", "claim_many")}


POSTGRES: dict[str, tuple[Edits, Check]] = {
    "all jobs of a lane go as its first": (
        {"claim_aging": [("(select now from moment) - r.turn", "0 * r.turn")]},
        jobs_rise,
    ),
    "pacing looks at the first job of a lane alone": (
        {"claim_aging": [("ready.turn <= coalesce(l.held, 9223372036854775807)", "true")]},
        what_is_held_stays,
    ),
    "what runs leaves its slots free": (
        {"load": [("- r.running", "")]},
        what_runs_takes_slots,
    ),
    "what runs of a key is not counted": (
        {"count_keys": [("1 as running", "0 as running")]},
        keys_are_limited,
    ),
    "what waits to be tried again does not count": (
        {"count_keys": [("w.turn is not null", "w.turn is null")]},
        keys_run_in_order,
    ),
    "what is tried again goes behind the others of its key": (
        {"stage": [("coalesce(turn, ", "coalesce(null * turn, ")]},
        keys_run_in_order,
    ),
    "a key gives as much as it has": (
        {"claim_keys": [("limit least(l.most, l.cap)", "limit least($4, l.cap)")]},
        keys_take_turns,
    ),
    "a retry forgets its key": (
        {
            "again": [
                ("then p.key else p.new_key end as key", "then null else p.new_key end as key"),
            ]
        },
        keys_are_kept,
    ),
    "ends without fence": ({"end": NO_FENCE}, stale_success),
    # The history's own key would refuse a second execution of one epoch; it is taken out as well.
    "lives on without fence": (
        {
            "again": [
                *NO_FENCE,
                (
                    "error::json, reason from moved",
                    "error::json, reason from moved on conflict do nothing",
                ),
            ]
        },
        stale_retry,
    ),
    "a cancel is forgotten": ({"again": [("and not r.cancel_requested", "")]}, cancel_is_stronger),
    "rescues without looking again": (
        {"again": [("(not $17 or", "(not $17 or $17 or")]},
        late_rescue,
    ),
    "ends lapsed without looking again": (
        {"end": [("(not $11 or", "(not $11 or $11 or")]},
        late_ending_rescue,
    ),
    "an old catalog is good enough": (
        of_claims(
            (
                "(select catalog_version from taskforge.projects where number = $19) = $2",
                "$2::bigint is not null",
            )
        ),
        pause_elsewhere,
    ),
    "claims without a lease": (
        of_claims((LEASE, "and $1::uuid is not null"), ROOM) | {"claim_doubt": []},
        lease_needed,
    ),
    "slots are not counted": (of_claims(ROOM), slots_kept),
    "claims do not hold their worker": (of_claims(ROOM), no_job_for_who_leaves),
    "running jobs are not counted": (
        {"count_gates": [("count(*) as running", "0 as running")]},
        concurrency_limit,
    ),
    "the rate is not remembered": (
        {"lock_gates": [("select queue, tokens,", "select queue, null::float8 as tokens,")]},
        rate_limit,
    ),
    "limits are read without a lock": (
        {"lock_gates": [("for update skip locked", "")]},
        limit_under_claimers,
    ),
    "skips are forgotten": (
        {"claim_one": [SKIP], "claim_many": [SKIP]},
        skip_is_kept,
    ),
    "what is late is handed out": ({"claim_one": [LATE]}, late_is_nobodys),
    "claimed jobs stay ready": (
        of_claims((MOVE, MOVE[:-12].replace("delete", "select *"))),
        one_place,
    ),
    "keys are not released": ({"end": [("where keyed)", "where false)")]}, key_released),
    "keys are asked for in every project": (
        {"key_holders": [("project = $1 and scope", "$1::int is not null and scope")]},
        keys_apart,
    ),
    "each start moves the timeout": (
        {
            "beat": [
                ("when i.ago is null or r.started_at is not null then", "when i.ago is null then")
            ]
        },
        start_counts_once,
    ),
    "endings are counted twice": (
        {
            "end": [
                (
                    "status, count(*) from ended group by 1, 2, 3",
                    "status, 2 * count(*) from ended group by 1, 2, 3",
                )
            ]
        },
        tallies_right,
    ),
}

# --- SQLite ---

HELD = "r.fence = substr(?1, i.key * 16 + 1, 16)"
HELD_BY_JOB = "substr(r.fence, 1, 13) = substr(?1, i.key * 16 + 1, 13)"
OF_CLAIMS = {
    "heads": "r.",
    "turns": "",
    "take": "r.",
    "take_into": "r.",
    "take_into_plain": "",
    "take_from": "",
}
SQLITE: dict[str, tuple[Edits, Check]] = {
    "what runs leaves its slots free": (
        {"load": [("- w.running", "")]},
        what_runs_takes_slots,
    ),
    "what runs of a key is not counted": (
        {"count_keys": [("1 as running", "0 as running")]},
        keys_are_limited,
    ),
    "what waits to be tried again does not count": (
        {"count_keys": [("w.turn is not null", "w.turn is null")]},
        keys_run_in_order,
    ),
    "what is tried again goes behind the others of its key": (
        {"stage": [("coalesce(turn, ", "coalesce(null, ")]},
        keys_run_in_order,
    ),
    "a retry forgets its key": (
        {"claims_in_full": [("r.misfit_at, r.key", "r.misfit_at, 0")]},
        keys_are_kept,
    ),
    "ends without fence": (
        {
            "claims_held": [(HELD, HELD_BY_JOB)],
            "end_alike": [(HELD, HELD_BY_JOB)],
            "leave_running": [
                ("where fence in", ("where substr(fence, "
                    "1, 13) in")), ("i.key * 16 + 1, 16)", "i.key * 16 + 1, 13)"),
            ],
        },
        stale_success,
    ),
    "slots are not counted": ({"running_of": [("count(*)", "0 * count(*)")]}, slots_kept),
    "a cancel is forgotten": ({"claims_held": [("r.cancel_requested", "0")]}, cancel_is_stronger),
    "rescues without "
        "looking again": ({"claims_lapsed": [("where r.timeout_at", ("where ?3 or "
            "r.timeout_at"))]}, late_rescue),
    "the rate is not remembered": ({"save_gate": [("?2, ?3", "?2 * 0 + 1e9, ?3")]}, rate_limit),
    "keys are not released": ({"free_keys": [("scope = 0", "scope = 9")]}, key_released),
    "endings are "
        "counted twice": ({"tally": [("values (?, ?, ?, ?)", ("values (?, ?, "
            "?, 2 * ?)"))]}, tallies_right),
    "lives on without fence": (
        {
            "claims_held": [(HELD, HELD_BY_JOB)],
            "add_execution": [("insert into", "insert or ignore into")],
            "claims_in_full": [(HELD, HELD_BY_JOB), ("select r.fence,", ("select substr(?1, i.key "
                "* 16 + 1, 16),"))],
            "leave_running": [
                ("where fence in", ("where substr(fence, "
                    "1, 13) in")), ("i.key * 16 + 1, 16)", "i.key * 16 + 1, 13)"),
            ],
        },
        stale_retry,
    ),
    "ends lapsed without looking again": (
        {"claims_lapsed": [("where r.timeout_at", "where ?3 or r.timeout_at")]}, late_ending_rescue,
    ),
    "skips are forgotten": (
        {name: [((f"({row}skipped "
            f"is null or"), (f"({row}skipped is "
                f"null or 1 or"))] for name, row in OF_CLAIMS.items()}, skip_is_kept,
    ),
    "what is late is handed out": (
        {name: [((f"({row}until "
            f"is null or"), (f"({row}until is "
                f"null or 1 or"))] for name, row in OF_CLAIMS.items()}, late_is_nobodys,
    ),
    "claimed jobs stay ready": (
        {"leave_ready": [("where fence in", ("where 0 and "
            "fence in"))], "take_from": [("where project", "where 0 and project")]}, one_place,
    ),
    "keys are asked for in "
        "every project": ({"key_holders": [("k.project = ?2", "?2 is not null")]}, keys_apart),
    "each start moves the timeout": (
        {"beat": [(("when ?2 is null or started_at is not "
            "null then"), "when ?2 is null then")]}, start_counts_once,
    ),
    "a second dead letter forgets the first": (
        {"bury": [("coalesce(origin_queue, queue)", "queue")]}, first_origin_kept,
    ),
    "what was retried "
        "is pruned": ({"still_finished": [("where f.finished_at < ?4", "where ?4")]},
        retried_is_not_pruned),
    "executions are everybody's": (
        {"executions": [((f"{arm}.project in (select value from "
            f"json_each(?3))"), "?3 <> ''") for arm in "erj"]},
        projects_apart,
    ),
    "keys go with their job": (
        {"remove_keys": [(("(?3 is null or scope = 0 or "
            "until <= ?3)"), "(?3 is null or 1)")]}, key_outlives_its_job,
    ),
    "what is due comes "
        "last first": ({"stage": [("(order by due, fence)", ("(order by due "
            "desc, fence)"))]}, due_in_order),
}  # fmt: skip


def test_every_twin_fits() -> None:
    """A statement was edited where a twin breaks it: give the twin the words that the statement has
    now."""
    twins = {("postgres", name): edits for name, (edits, _) in POSTGRES.items()}
    twins |= {("postgres", name): edits for name, (edits, _) in BY_ITS_OWN_TESTS.items()}
    twins |= {("sqlite", name): edits for name, (edits, _) in SQLITE.items()}
    twins |= {
        (engine, f"found by the machine in {next(iter(edits))}"): edits
        for engine, edits in FOUND_BY_THE_MACHINE
    }
    told = [
        f"{engine}, {name!r}: {why}"
        for (engine, name), edits in twins.items()
        for why in misfits(MODULES[engine], edits)
    ]
    assert not told, "these twins no longer fit:\n" + "\n".join(told)


@pytest.fixture
async def hospital() -> AsyncIterator[list[Store]]:
    """Stores whose engines are broken: they are closed, and nobody looks whether their invariants
    hold."""
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
    break_statements(monkeypatch, MODULES["postgres"], edits)
    real_time = check in (limit_under_claimers, no_job_for_who_leaves)
    world = await open_world(PostgresStore(postgres_url), hospital, real_time=real_time)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(world)


@pytest.mark.parametrize("twin", SQLITE)
async def test_a_broken_sqlite_engine_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path, twin: str
) -> None:
    edits, check = SQLITE[twin]
    break_statements(monkeypatch, MODULES["sqlite"], edits)
    world = await open_world(SqliteStore(tmp_path), hospital)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(world)


async def test_sqlite_with_an_old_catalog_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path
) -> None:
    from taskforge.storage.sqlite import claims
    from taskforge.storage.sqlite.catalog_cache import CatalogCache

    newest, right = CatalogCache.of, claims.claim

    def claim(*arguments: Any) -> Any:
        with monkeypatch.context() as claiming:
            claiming.setattr(
                CatalogCache,
                "of",
                lambda cache, project: cache._catalogs.get(project) or newest(cache, project),
            )
            return right(*arguments)

    monkeypatch.setattr(claims, "claim", claim)
    with pytest.raises(AssertionError):
        await pause_elsewhere(await open_world(SqliteStore(tmp_path), hospital))


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
async def test_keys_that_are_not_charged_for_what_they_took_are_caught(
    monkeypatch: pytest.MonkeyPatch,
    hospital: list[Store],
    tmp_path: Path,
    postgres_url: str,
    kind: str,
) -> None:
    from taskforge.domain.fairness import KeyRounds

    monkeypatch.setattr(KeyRounds, "charge", lambda *_: None)
    monkeypatch.setattr(KeyRounds, "settle", lambda *_: None)
    store = PostgresStore(postgres_url) if kind == "postgres" else SqliteStore(tmp_path)
    with pytest.raises(AssertionError):
        await turns_are_remembered(await open_world(store, hospital))


async def test_sqlite_without_limits_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path
) -> None:
    from taskforge.storage.sqlite.gates import Gates

    monkeypatch.setattr(Gates, "room", lambda _, __, wanted: wanted)
    with pytest.raises(AssertionError):
        await concurrency_limit(await open_world(SqliteStore(tmp_path), hospital))


async def test_postgres_that_shows_every_projects_jobs_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], postgres_url: str
) -> None:
    from taskforge.storage.postgres.connections import PostgresConnections

    right = PostgresConnections.in_schema
    predicate, none = "project = any ($2::int[])", "$2::int[] is not null"
    monkeypatch.setattr(
        PostgresConnections,
        "in_schema",
        lambda connections, text: right(connections, text).replace(predicate, none),
    )
    with pytest.raises(AssertionError):
        await projects_apart(await open_world(PostgresStore(postgres_url), hospital))


async def test_postgres_that_lets_scheduled_jobs_go_with_their_day_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], postgres_url: str
) -> None:
    from taskforge.storage.postgres import partitions

    look = partitions._survivors

    async def without_waiting(connections: Any, connection: Any, *arguments: Any) -> set[UUID]:
        waiting = await connection.fetch(connections.in_schema("select job from taskforge.waiting"))
        return await look(connections, connection, *arguments) - {row["job"] for row in waiting}

    monkeypatch.setattr(partitions, "_survivors", without_waiting)
    with pytest.raises(AssertionError):
        await unfinished_stay(await open_world(PostgresStore(postgres_url), hospital))


async def test_postgres_that_keeps_every_queue_for_the_same_time_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], postgres_url: str
) -> None:
    from taskforge.storage.postgres import partitions

    drop = partitions.drop_old

    async def after_thirty_days(
        connections: Any, now: datetime, _: datetime, kept: Any, term: int | None = None
    ) -> int:
        return await drop(connections, now, now - timedelta(days=30), kept, term)

    monkeypatch.setattr(partitions, "drop_old", after_thirty_days)
    with pytest.raises(AssertionError):
        await history_kept_longer(await open_world(PostgresStore(postgres_url), hospital))


async def test_an_engine_whose_pacing_forgets_eight_and_nine_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path
) -> None:
    from taskforge.domain import urgency

    monkeypatch.setattr(urgency, "should_execute_immediately", lambda _: False)
    with pytest.raises(AssertionError):
        await jobs_wait_their_pace(await open_world(SqliteStore(tmp_path), hospital))


async def test_an_engine_that_explains_without_what_waiting_does_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], tmp_path: Path
) -> None:
    from taskforge.storage import explaining

    right = explaining._last_before
    monkeypatch.setattr(
        explaining, "_last_before", lambda _, behind, stand: right(None, behind, stand)
    )
    with pytest.raises(AssertionError):
        await explanations_put_in_line(await open_world(SqliteStore(tmp_path), hospital))


async def test_postgres_that_deletes_queues_under_claims_is_caught(
    monkeypatch: pytest.MonkeyPatch, hospital: list[Store], postgres_url: str
) -> None:
    from taskforge.storage.postgres.queues import PostgresQueues

    async def nobody(*_: Any) -> None: ...

    monkeypatch.setattr(PostgresQueues, "_hold_up_claims", nobody)
    world = await open_world(PostgresStore(postgres_url), hospital, real_time=True)
    crowd = test_races.Crowd(world.store, world.engine, world.clock)
    crowd.engines = [world.engine, await world.another()]
    with pytest.raises(AssertionError, match="the queue went"):
        await test_races.test_a_queue_is_not_deleted_under_a_job_that_is_just_being_claimed(
            crowd, lambda _: None
        )


# --- What only PostgreSQL can do wrong, by its own tests ---


async def connection_left_as_it_was(engine: PostgresEngine, _: asyncpg.Connection) -> None:
    await test_durability.test_what_need_not_wait_for_the_disk_leaves_its_connection_as_it_was(
        engine
    )


async def no_line_behind_the_end(engine: PostgresEngine, connection: asyncpg.Connection) -> None:
    await test_meanwhile.test_a_line_that_comes_while_its_job_ends_is_reported_lost(
        engine, connection, engine.connections.schema
    )


BY_ITS_OWN_TESTS: dict[
    str, tuple[Edits, Callable[[PostgresEngine, asyncpg.Connection], Awaitable[None]]]
] = {
    "a beat turns waiting for the disk off for good": (
        {"beat": [("'off', true)", "'off', false)")]},
        connection_left_as_it_was,
    ),
    "a line does not wait for the end": (
        {"add_log": [(" for key share", "")]},
        no_line_behind_the_end,
    ),
}


@pytest.mark.parametrize("twin", BY_ITS_OWN_TESTS)
async def test_a_broken_postgres_engine_is_caught_by_its_own_tests(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str, twin: str
) -> None:
    edits, check = BY_ITS_OWN_TESTS[twin]
    break_statements(monkeypatch, MODULES["postgres"], edits)
    engine = PostgresEngine(postgres_url, schema=f"test_{secrets.token_hex(6)}", pool_size=1)
    connection = await asyncpg.connect(postgres_url)
    try:
        await engine.open()
        await engine.change_queue(1, CreateQueue(name="emails"))
        with pytest.raises(AssertionError):
            await check(engine, connection)
    finally:
        await engine.close()
        await connection.execute(
            f"drop schema if exists {engine.connections.schema} cascade; drop role if exists "
            f"{engine.connections.schema}_reader"
        )
        await connection.close()


# --- The state machine finds what no single rule was written for ---

FOUND_BY_THE_MACHINE: list[tuple[str, Edits]] = [
    (
        "postgres",
        {"again": [("when p.crashed then p.crashes + 1", "when p.crashed then p.crashes")]},
    ),
    ("postgres", {"stage": [("order by due, fence", "order by due desc, fence")]}),
    ("postgres", {"end": [("where keyed)", "where false)")]}),
    ("sqlite", {"claims_held": [("r.cancel_requested", "0")]}),
    ("sqlite", {"beat": [("progress = coalesce(?3, progress)", "progress = ?3")]}),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("engine", "edits"),
    FOUND_BY_THE_MACHINE,
    ids=[f"{e}-{next(iter(s))}" for e, s in FOUND_BY_THE_MACHINE],
)
def test_the_machine_finds_a_broken_engine(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    engine: str,
    edits: Edits,
) -> None:
    break_statements(monkeypatch, MODULES[engine], edits)
    in_file = engine == "sqlite"
    store = (
        SqliteStore(tmp_path, durable=False)
        if in_file
        else PostgresStore(request.getfixturevalue("postgres_url"))
    )

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
