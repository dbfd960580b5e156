"""Searches: pages that are short, and cursors that lead through everything once; what they look at
does not grow with what is stored."""

import random
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.changes import CancelJob, RetryJob
from taskforge.domain.errors import Invalid
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.job_page import MOST_COUNTED, Counted
from taskforge.domain.outcome import Finish, ToFailed, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.operations.jobs import dry_run, dry_run_named, fill_page, read_pages
from taskforge.ports.engine import Engine
from taskforge.storage import search
from tests.support.broken import break_statements
from tests.support.reads import touched
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.world import ERROR, Clock, World, ids

QUEUES, TYPES, TAGS = ("default", "mail", "third"), ("a", "b", "c"), ("red", "blue")


async def a_mixed_crowd(world: World, chance: random.Random, count: int) -> list[StoredJob]:
    """Jobs of all kinds, statuses and times, among those of a neighbour; newest first."""
    second = await world.probe.add_project("second")
    for queue in QUEUES[1:]:
        await world.queue(queue)
    for queue in QUEUES:
        await world.queue(queue, project=second)
    made: list[UUID] = []
    worker = await world.worker(max_concurrent_jobs=100)
    for number in range(count):
        project = chance.choice((1, 1, second))
        job = await world.enqueue(
            chance.choice(QUEUES),
            chance.choice(TYPES),
            priority=chance.choice((0, 5)),
            tags=[tag for tag in TAGS if chance.random() < 0.5],
            at=chance.choice((None, None, None, float(chance.randrange(100, 200)))),
            project=project,
        )
        if project == 1:
            made.append(job)
        world.clock.advance(chance.choice((0.0, 0.5)))
        if number % 3 == 0:
            for claimed in await world.claim(worker, 2):
                if chance.random() < 0.7:
                    to = chance.choice((ToSucceeded(), ToFailed(ERROR, "no")))
                    await world.engine.finish([Finish(claimed.fence, to)])
        if number % 7 == 0 and made:
            await world.engine.change([1], [chance.choice(made)], CancelJob())
    found = await world.engine.get([1], made)
    return sorted(found, key=lambda job: job.id, reverse=True)


def a_filter(chance: random.Random, jobs: list[StoredJob]) -> JobFilter:
    def some(values: tuple[Any, ...], odds: float = 0.4) -> tuple[Any, ...]:
        return tuple(value for value in values if chance.random() < odds)

    def moment() -> Any:
        return chance.choice(jobs).created_at if chance.random() < 0.2 else None

    due = [job.scheduled_for for job in jobs if job.status is JobStatus.SCHEDULED]
    by_due = chance.random() < 0.2 and due
    return JobFilter(
        queues=some(QUEUES) if chance.random() < 0.5 else (),
        statuses=some(tuple(JobStatus)) if chance.random() < 0.7 else (),
        job_types=some(TYPES) if chance.random() < 0.5 else (),
        priorities=some((0, 5)) if chance.random() < 0.3 else (),
        tags=some(TAGS) if chance.random() < 0.3 else (),
        created_after=moment(),
        created_before=moment(),
        scheduled_after=chance.choice(due) if by_due else None,
        scheduled_before=chance.choice(due) if by_due and chance.random() < 0.5 else None,
    )


def matches(wanted: JobFilter, job: StoredJob) -> bool:
    def among(values: tuple[Any, ...], *present: Any) -> bool:
        return not values or any(value in values for value in present)

    def within(first: Any, end: Any, moment: Any) -> bool:
        return (first is None or moment >= first) and (end is None or moment < end)

    asks_due = wanted.scheduled_after is not None or wanted.scheduled_before is not None
    is_due = job.status is JobStatus.SCHEDULED and within(
        wanted.scheduled_after, wanted.scheduled_before, job.scheduled_for
    )
    return (
        among(wanted.queues, job.queue)
        and among(wanted.statuses, job.status)
        and among(wanted.job_types, job.job_type)
        and among(wanted.priorities, job.priority)
        and among(wanted.tags, *job.tags)
        and within(wanted.created_after, wanted.created_before, job.created_at)
        and (is_due or not asks_due)
    )


@pytest.mark.parametrize("merged", [1, 100])
async def test_every_filter_finds_what_matches_once_in_however_short_pages(
    world: World, monkeypatch: pytest.MonkeyPatch, merged: int
) -> None:
    chance = random.Random(merged)
    jobs = await a_mixed_crowd(world, chance, 60)
    filters = [a_filter(chance, jobs) for _ in range(60)]
    for name, value in (("ROWS", 8), ("MERGED", merged), ("LITTLE", 3)):
        monkeypatch.setattr(search, name, value)
    are_short = 0
    for wanted in filters:
        expected = [job.id for job in jobs if matches(wanted, job)]
        found: list[UUID] = []
        async for part in read_pages(world.engine, [1], wanted, Page(limit=3)):
            assert len(part.jobs) <= 3
            are_short += part.cursor is not None and len(part.jobs) < 3
            found += ids(part.jobs)
        assert found == expected, wanted
        assert await world.engine.count_jobs([1], wanted) == Counted(len(expected), more=False)
        skipped = Page(limit=5, offset=chance.randrange(6))
        page = await fill_page(world.engine, [1], wanted, skipped, seconds=60)
        assert ids(page.jobs) == expected[skipped.offset :][:5]
    assert are_short > 20, "the bound did not show"


async def test_a_count_ends_at_a_bound_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.enqueue_many(30, tags=["t"])
    for wanted in (JobFilter(), JobFilter(tags=("t",)), JobFilter(statuses=(JobStatus.PENDING,))):
        assert await world.engine.count_jobs([1], wanted) == Counted(30, more=False)
    monkeypatch.setattr(search, "MOST_COUNTED", 10)
    for engine in ("sqlite", "postgres"):
        monkeypatch.setattr(f"taskforge.storage.{engine}.listing.MOST_COUNTED", 10)
    monkeypatch.setattr(search, "LITTLE", 3)
    for wanted in (JobFilter(), JobFilter(tags=("t",)), JobFilter(statuses=(JobStatus.PENDING,))):
        assert await world.engine.count_jobs([1], wanted) == Counted(10, more=True)
    none = await world.engine.count_jobs([1], JobFilter(job_types=("none",)))
    assert none == Counted(0, more=True), "nobody has looked at all of them"


async def test_a_preview_says_what_a_change_would_do(world: World) -> None:
    waits = await world.enqueue_many(3)
    over = await world.enqueue()
    await world.engine.change([1], [over], CancelJob())
    for verb, would in ((CancelJob(), 3), (RetryJob(), 1)):
        seen = await dry_run(world.engine, [1], JobFilter(), verb)
        assert (seen.changed, seen.refused, seen.more) == (would, 4 - would, False)
        seen = await dry_run_named(world.engine, [1], [*waits, over, over], verb)
        assert (seen.changed, seen.refused) == (would, 4 - would)
    seen = await dry_run(world.engine, [1], JobFilter(statuses=(JobStatus.CANCELLED,)), CancelJob())
    assert (seen.changed, seen.refused) == (0, 1)
    assert {one.status for one in await world.engine.get([1], waits)} == {JobStatus.PENDING}


# --- What is looked at, with a tenth and with all of it ---

FEW, MANY = UUID(int=5), UUID(int=6)  # groups of failures
POSTGRES_FILL = (
    (
        "create temporary table made as select i, (lpad(to_hex(1700000000000 + i), 12, '0') || "
        "'70008000' || lpad(to_hex(i), 6, '0') || '000000')::uuid as id, i = {first} as rare "
        "from generate_series({first}, {last}) i"
    ),
    (
        "insert into jobs (id, project, queue, job_type, priority, max_attempts, payload, tags) "
        "select id, 1, 1, case when rare then 'rare' else 'bulk' end, "
        "case when rare then 9 else 0 end, 3, '{{}}', array['all'] from made"
    ),
    "insert into job_tags (project, tag, job) select 1, 'all', id from made",
    (
        "insert into ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, "
        "turn) select overlay(id::text placing '000001' from 31)::uuid, id, 1, "
        "case when rare then {rare} else {bulk} end, 0, 3, 0, false, i from made "
        "where i % 2 = 0 or rare"
    ),
    (
        "insert into finished (job, queue, project, status, epoch, attempt, max_attempts, crashes, "
        "finished_at, failure) select id, 1, 1, case when i = {first} + 2 then 4 else 3 end, 1, 1, "
        "3, 0, now(), case when i = {first} + 2 then '{few}'::uuid when i % 4 = 1 then "
        "'{many}'::uuid end from made where i % 2 = 1 and not rare"
    ),
    "drop table made",
)
SQLITE_FILL = (
    (
        "insert into jobs (id, project, queue, job_type, priority, max_attempts, payload, tags) "
        "values (:id, 1, 1, :kind, :priority, 3, '{}', '[\"all\"]')"
    ),
    "insert into job_tags (project, tag, job) values (1, 'all', :id)",
    (
        "insert into ready (fence, project, lane, attempt, max_attempts, crashes, keyed, turn) "
        "select :fence, 1, :lane, 0, 3, 0, 0, :i where :i % 2 = 0 or :kind = 'rare'"
    ),
    (
        "insert into finished (job, queue, project, status, epoch, attempt, max_attempts, crashes, "
        "finished_at, failure) select :id, 1, 1, :status, 1, 1, 3, 0, 0, "
        "case when :status = 4 then :few when :i % 4 = 1 then :many end "
        "where :i % 2 = 1 and :kind <> 'rare'"
    ),
)
FILTERS = [
    JobFilter(),
    JobFilter(queues=("default",)),
    JobFilter(statuses=(JobStatus.PENDING,)),
    JobFilter(statuses=(JobStatus.PENDING,), job_types=("rare",)),
    JobFilter(statuses=(JobStatus.PENDING,), job_types=("none",)),
    JobFilter(statuses=(JobStatus.PENDING,), queues=("side",)),
    JobFilter(statuses=(JobStatus.SUCCEEDED,)),
    JobFilter(statuses=(JobStatus.FAILED,)),
    JobFilter(statuses=(JobStatus.SUCCEEDED, JobStatus.FAILED), job_types=("none",)),
    JobFilter(statuses=tuple(JobStatus), job_types=("none", "rare")),
    JobFilter(job_types=("rare",)),
    JobFilter(job_types=("none", "other")),
    JobFilter(priorities=(9,)),
    JobFilter(tags=("all",)),
    JobFilter(tags=("all",), statuses=(JobStatus.FAILED,)),
    JobFilter(tags=("all", "none"), job_types=("none",)),
    JobFilter(queues=("default", "side"), job_types=("none",)),
    JobFilter(failure_group=FEW),
    JobFilter(failure_group=MANY, job_types=("none",)),
    JobFilter(failure_group=MANY, statuses=(JobStatus.PENDING,)),
]


class Filled:
    """A store into which jobs come by thousands, past the engine: the first of each filling is
    rare, the third is failed."""

    def __init__(self, store: Store, lanes: dict[str, int]) -> None:
        self._store, self._lanes, self._last = store, lanes, 0

    async def fill(self, count: int) -> None:
        first, last = self._last + 1, self._last + count
        self._last = last
        if isinstance(self._store, SqliteStore):
            self._fill_sqlite(self._store.path, first, last)
            return
        for text in POSTGRES_FILL:
            numbers = {"first": first, "last": last, "few": FEW, "many": MANY}
            await self._store.probe.rows(text.format(**numbers, **self._lanes))

    def _fill_sqlite(self, path: Path, first: int, last: int) -> None:
        made = []
        for i in range(first, last + 1):
            whole = f"{1700000000000 + i:012x}70008000{i:06x}"
            kind = "rare" if i == first else "bulk"
            made.append(
                {
                    "i": i,
                    "id": bytes.fromhex(whole + "000000"),
                    "fence": bytes.fromhex(whole + "000001"),
                    "kind": kind,
                    "lane": self._lanes[kind],
                    "priority": 9 if kind == "rare" else 0,
                    "status": 4 if i == first + 2 else 3,
                    "few": FEW.bytes,
                    "many": MANY.bytes,
                }
            )
        with closing(sqlite3.connect(path)) as connection, connection:
            for text in SQLITE_FILL:
                connection.executemany(text, made)


async def begin(store: Store, clock: Clock) -> Filled:
    engine = await store.open(clock)
    world = World(store, engine, clock)
    await world.queue("default")
    await world.queue("side")
    for kind in ("bulk", "rare"):
        await world.enqueue("default", kind)
    rows = await store.probe.rows("select job_type, number from lanes")
    await engine.close()
    return Filled(store, dict(rows))


async def test_a_count_is_refused_what_a_list_is_refused(world: World) -> None:
    wrong = JobFilter(priorities=(10,))
    with pytest.raises(Invalid, match="priority"):
        await world.engine.list_jobs([1], wrong, Page())
    with pytest.raises(Invalid, match="priority"):
        await world.engine.count_jobs([1], wrong)


async def look(engine: Engine) -> None:
    """Every way to look at a filter, and at the counts."""
    for wanted in FILTERS:
        page = await engine.list_jobs([1], wanted, Page(limit=20))
        if page.cursor is not None:
            await engine.list_jobs([1], wanted, Page(limit=20, cursor=page.cursor))
    for wanted in FILTERS[::3]:
        await engine.count_jobs([1], wanted)
    await dry_run(engine, [1], JobFilter(), CancelJob())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds in a tenth of what they are, so that a tenth of the jobs shows them."""
    monkeypatch.setattr(search, "ROWS", 200)
    monkeypatch.setattr(search, "LITTLE", 100)
    monkeypatch.setattr(search, "MOST_COUNTED", MOST_COUNTED // 10)
    for engine in ("sqlite", "postgres"):
        monkeypatch.setattr(f"taskforge.storage.{engine}.listing.MOST_COUNTED", MOST_COUNTED // 10)


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    yield store
    await store.close()


async def rows_read(store: PostgresStore, clock: Clock) -> int:
    before = await touched(store)
    engine = await store.open(clock)
    await look(engine)
    await engine.close()
    used = await touched(store)
    used.subtract(before)
    tables = ("jobs", "ready", "waiting", "running", "finished", "job_tags", "lanes", "queues")
    assert used["jobs", "read"] > 1_000, "the counters did not arrive"
    # The probe has read one table whole, and tells of it when it likes.
    assert sum(used[table, "scans"] for table in tables) <= 1
    return sum(used[table, "read"] for table in tables)


@pytest.mark.usefixtures("small")
async def test_postgres_looks_at_no_more_rows_where_more_is_stored(
    postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    filled = await begin(postgres, clock)
    await filled.fill(2_000)
    few = await rows_read(postgres, clock)
    await filled.fill(18_000)
    assert await rows_read(postgres, clock) <= 1.2 * few + 500
    await postgres.probe.rows("analyze")
    assert await rows_read(postgres, clock) <= 1.2 * few + 500
    # The broken twin: a walk that is bounded by what it finds, not by what it looks at.
    break_statements(
        monkeypatch,
        "taskforge.storage.postgres.connections",
        {
            "search_facts": [
                (
                    "(w.queue, w.below)\n",
                    "(w.queue, w.below) and ($5::text[] is null or j.job_type = any ($5))\n",
                )
            ]
        },
    )
    assert await rows_read(postgres, clock) > 2 * few


@contextmanager
def counted_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """By the virtual machines of all connections that are made meanwhile, in hundreds."""
    from taskforge.storage.sqlite import connections

    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    right: Any = sqlite3.connect

    def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = right(*arguments, **options)
        connection.set_progress_handler(step, 100)
        return connection

    with monkeypatch.context() as counting:
        counting.setattr(connections.sqlite3, "connect", counted)
        yield steps


async def steps_taken(store: SqliteStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> int:
    with counted_steps(monkeypatch) as steps:
        engine = await store.open(clock)
        steps[0] = 0
        await look(engine)
        taken = steps[0]
        await engine.close()
    return taken


@pytest.mark.usefixtures("small")
async def test_sqlite_takes_no_more_steps_where_more_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, store = Clock(), SqliteStore(tmp_path, durable=False)
    filled = await begin(store, clock)
    await filled.fill(2_000)
    few = await steps_taken(store, clock, monkeypatch)
    assert few > 100, "the steps were not counted"
    await filled.fill(18_000)
    assert await steps_taken(store, clock, monkeypatch) <= 1.2 * few + 50
    await store.probe.rows("analyze")
    assert await steps_taken(store, clock, monkeypatch) <= 1.2 * few + 50
    # The broken twin: as above.
    break_statements(
        monkeypatch,
        "taskforge.storage.sqlite.catalog_cache",
        {
            "search_facts": [
                (
                    "j.id < ?2\n",
                    "j.id < ?2 and (?5 is null or instr(?5, j.job_type))\n",
                )
            ]
        },
    )
    assert await steps_taken(store, clock, monkeypatch) > 1.5 * few
    await store.close()


def test_a_cursor_tells_half_of_what_is_random_in_somebody_elses_id() -> None:
    below = UUID("01900000-0001-7000-8000-000000000000")
    last = UUID("01900000-0000-7abc-9def-123456000000")
    walk = search.Search([search.Stream(search.READY)], JobFilter(), below, 5, 100)
    [read] = walk.next_reads()
    walk.take(read, search.Stretch(read.rows, last, []))
    page = msgspec.structs.replace(Page(), limit=5)
    ids_of_page, cursor = walk.take_page(page)
    told = Page(cursor=cursor).before()
    assert ids_of_page == []
    assert told is not None
    assert last < told < below
    assert (told.int ^ last.int).bit_length() <= 49
    assert told.int & (1 << 48)
