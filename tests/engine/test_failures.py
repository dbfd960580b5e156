"""Groups of failures: every way to fail is counted in one, which jobs it has is found by index, and
no message makes more of them than a day has room for."""

import asyncio
from uuid import UUID

import pytest

from taskforge.domain import failure_group
from taskforge.domain.changes import CancelJob, DeleteJob, RedriveJob, RetryJob
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.failure_group import (
    KEPT_DAYS,
    FailureGroup,
    GroupQuery,
    GroupSort,
    Trend,
)
from taskforge.domain.failure_kind import group_of, kind_of
from taskforge.domain.job import ErrorInfo, JobStatus, error_info
from taskforge.domain.job_page import Counted
from taskforge.domain.outcome import Finish, ToDeadLetter, ToFailed, ToRetry, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.operations import failures as operations
from taskforge.operations.failures import StoreFailures
from taskforge.operations.jobs import read_pages
from taskforge.storage.records import failures as records
from taskforge.storage.records.failures import FailureRecords
from tests.support.world import World

LOST = "connection to 10.0.0.{} lost"


async def fail(
    world: World, count: int = 1, error: ErrorInfo | None = None, **options: object
) -> list[UUID]:
    """Jobs that fail for good, each with a message of its own unless an error is given."""
    jobs = [await world.enqueue(**options) for _ in range(count)]  # type: ignore[arg-type]
    worker = await world.worker(max_concurrent_jobs=1_000)
    finishes = [
        Finish(
            claimed.fence,
            ToFailed(error or error_info("OSError", LOST.format(place), f"at {place}"), "no"),
        )
        for place, claimed in enumerate(await world.claim(worker, 1_000))
    ]
    assert len(finishes) == count
    assert await world.engine.finish(finishes) == []
    return jobs


async def groups(world: World, **query: object) -> list[FailureGroup]:
    await FailureRecords(world.engine).fold(1_000)
    page = await StoreFailures(world.engine).groups([1], GroupQuery(**query))  # type: ignore[arg-type]
    return page.groups


async def ids(world: World, **wanted: object) -> list[UUID]:
    pages = read_pages(world.engine, [1], JobFilter(**wanted), Page(limit=3))  # type: ignore[arg-type]
    return [job.id for page in [one async for one in pages] for job in page.jobs]


async def test_failures_that_are_alike_are_one_group(world: World) -> None:
    await world.queue("mail")
    jobs = await fail(world, 4) + await fail(world, 2, queue="mail")
    await fail(world, 1, error_info("KeyError", "'a'"))
    world.clock.advance(60)
    await fail(world, 1, job_type="other")
    found = await groups(world, sort=GroupSort.COUNT)
    assert [(one.job_type, one.error_type, one.message, one.count) for one in found] == [
        ("work", "OSError", "connection to <address> lost", 6),
        ("other", "OSError", "connection to <address> lost", 1),
        ("work", "KeyError", "<text>", 1),
    ]
    first = found[0]
    assert first.queues == ("default", "mail")
    assert first.trend is Trend.NEW
    assert sum(first.hours) == 6
    assert first.id == group_of(1, "work", kind_of(error_info("OSError", LOST.format(9))))
    assert await ids(world, failure_group=first.id) == sorted(jobs, reverse=True)
    assert await ids(world, failure_group=first.id, queues=("mail",)) == jobs[:3:-1]
    assert await ids(world, failure_group=first.id, statuses=(JobStatus.PENDING,)) == []
    details = await StoreFailures(world.engine).details([1], first.id)
    assert (details.failed, details.dead_letters) == (Counted(6, False), Counted(0, False))
    assert details.example is not None
    assert details.example.job_id in jobs
    assert details.example.execution_id is not None
    assert details.example.traceback.startswith("at ")
    with pytest.raises(NotFound):
        await StoreFailures(world.engine).details([2], first.id)
    with pytest.raises(Invalid, match="failure_group"):
        await ids(world, failure_group=first.id, tags=("red",))


async def test_pages_lead_through_all_groups_once(world: World) -> None:
    for number in range(7):
        error = error_info(f"Error{'ABCDEFG'[number]}", "boom")
        await fail(world, 1 + number % 3, error)
        world.clock.advance(number % 2)
    await FailureRecords(world.engine).fold(100)
    failures = StoreFailures(world.engine)
    for sort in GroupSort:
        seen: list[FailureGroup] = []
        query = GroupQuery(sort=sort, limit=2)
        while True:
            page = await failures.groups([1, 2], query)
            seen += page.groups
            if page.cursor is None:
                break
            query = GroupQuery(sort=sort, limit=2, cursor=page.cursor)
        assert len({one.id for one in seen}) == len(seen) == 7
        keys = [one.count if sort is GroupSort.COUNT else one.last_seen for one in seen]
        assert keys == sorted(keys, reverse=True)
    since = await groups(world, seen_after=world.clock.after(-1.5))
    assert 0 < len(since) < 7
    assert await groups(world, job_type="nothing") == []
    with pytest.raises(Invalid, match="cursor"):
        await failures.groups([1], GroupQuery(cursor="_" * 22))


async def test_a_retry_is_counted_and_its_job_is_not_in_the_group(world: World) -> None:
    job = await world.enqueue()
    claimed = await world.claim_one(await world.worker())
    error = error_info("OSError", LOST.format(1), "where")
    assert await world.finish(claimed.fence, ToRetry(60.0, error)) == []
    [group] = await groups(world)
    assert (group.count, group.job_id) == (1, job)
    details = await StoreFailures(world.engine).details([1], group.id)
    assert details.failed == Counted(0, False)
    assert details.example is not None
    assert (details.example.execution_id, details.example.traceback) == (claimed.fence, "where")


async def test_jobs_of_a_group_are_run_again_and_dead_letters_go_back(world: World) -> None:
    dead = await world.queue("dead")
    await world.queue("buries", dead_letter_queue_id=str(dead.id))
    failed = await fail(world, 3)
    buried = [await world.enqueue("buries") for _ in range(2)]
    worker = await world.worker(queues=("buries",))
    error = error_info("OSError", LOST.format(7))
    for claimed in await world.claim(worker):
        await world.finish(claimed.fence, ToDeadLetter(dead.id, error, "no attempts left"))
    [group] = await groups(world)
    failures = StoreFailures(world.engine)
    assert sorted(await ids(world, failure_group=group.id)) == sorted(failed + buried)
    details = await failures.details([1], group.id)
    assert (details.failed.count, details.dead_letters.count) == (3, 2)
    would = await failures.try_change([1], group.id)
    assert (would.changed, would.more) == (5, False)
    came = await failures.change([1], group.id, RetryJob())
    assert (came.changed, came.refused, came.cursor) == (5, 0, None)
    assert {(await world.job(job)).queue for job in buried} == {"buries"}
    assert {await world.status(job) for job in failed + buried} == {JobStatus.PENDING}
    assert await ids(world, failure_group=group.id) == []
    [after] = await groups(world)
    assert after.count == 5


async def test_jobs_of_a_group_are_deleted_page_by_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "SLICE", 2)
    dead = await world.queue("dead")
    await world.queue("buries", dead_letter_queue_id=str(dead.id))
    buried = [await world.enqueue("buries") for _ in range(3)]
    worker = await world.worker(queues=("buries",))
    error = error_info("OSError", LOST.format(7))
    for claimed in await world.claim(worker):
        await world.finish(claimed.fence, ToDeadLetter(dead.id, error, "no attempts left"))
    jobs = await fail(world, 5, queue="default") + buried
    [group] = await groups(world)
    failures, cursor, steps = StoreFailures(world.engine), None, []
    while True:
        came = await failures.change([1], group.id, DeleteJob(), limit=2, cursor=cursor)
        steps.append(came.changed)
        cursor = came.cursor
        if cursor is None:
            break
    assert sum(steps) == 8
    assert max(steps) <= 3  # about so many
    assert await world.engine.get([1], jobs) == []
    details = await failures.details([1], group.id)
    assert (details.group.count, details.example) == (8, None)
    for wrong in ("x", "f_"):
        with pytest.raises(Invalid, match="cursor"):
            await failures.change([1], group.id, DeleteJob(), cursor=wrong)


async def test_a_job_that_changes_otherwise_leaves_its_group(world: World) -> None:
    retried, deleted, stays = await fail(world, 3)
    [group] = await groups(world)
    await world.change(retried, RetryJob())
    await world.change(deleted, DeleteJob())
    assert await ids(world, failure_group=group.id) == [stays]
    await world.change(retried, CancelJob())
    assert await ids(world, failure_group=group.id) == [stays]


async def test_a_dead_letter_that_is_redriven_or_ends_leaves_its_group(world: World) -> None:
    dead = await world.queue("dead")
    await world.queue("buries", dead_letter_queue_id=str(dead.id))
    error = error_info("OSError", LOST.format(7))
    jobs = [await world.enqueue("buries") for _ in range(2)]
    for claimed in await world.claim(await world.worker(queues=("buries",))):
        await world.finish(claimed.fence, ToDeadLetter(dead.id, error, "no attempts left"))
    group = group_of(1, "work", kind_of(error))
    assert len(await ids(world, failure_group=group)) == 2
    await world.change(jobs[0], RedriveJob())
    assert await ids(world, failure_group=group) == [jobs[1]]
    claimed = await world.claim_one(await world.worker(queues=("dead",)))
    assert await ids(world, failure_group=group) == [jobs[1]]
    await world.finish(claimed.fence, ToSucceeded())
    assert await ids(world, failure_group=group) == []


async def test_many_that_fold_at_once_count_everything_once(world: World) -> None:
    others = [world.engine, await world.another(), await world.another()]
    for number in range(6):
        await fail(world, 3, error_info("OSError" if number % 2 else "KeyError", "boom"))
    while await world.probe.count("failure_deltas"):
        await asyncio.gather(*(FailureRecords(one).fold(2) for one in others))
    assert [one.count for one in await groups(world)] == [9, 9]


async def test_a_day_has_room_for_so_many_groups_of_a_project(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "NEW_A_DAY", 2)
    names = "ABCDE"
    for name in names:
        await fail(world, 2, error_info(name, "boom"))
    found = await groups(world)
    assert sorted((one.error_type, one.count) for one in found) == [("", 6), ("A", 2), ("B", 2)]
    rest = next(one for one in found if one.is_rest)
    assert (await StoreFailures(world.engine).change([1], rest.id, RetryJob())).changed == 0
    await fail(world, 1, error_info("E", "boom"))
    await fail(world, 1, error_info("A", "boom"))
    counts = {one.error_type: one.count for one in await groups(world)}
    assert counts == {"": 7, "A": 3, "B": 2}
    world.clock.advance(86_400)
    await fail(world, 1, error_info("C", "boom"))
    assert {one.error_type for one in await groups(world)} == {"", "A", "B", "C"}


async def test_a_group_is_forgotten_long_after_its_last_failure(world: World) -> None:
    await fail(world, 1, error_info("Old", "boom"))
    [old] = await groups(world)
    assert old.trend is Trend.NEW
    world.clock.advance(KEPT_DAYS * 86_400 - 60)
    await fail(world, 1, error_info("New", "boom"))
    assert [one.trend for one in await groups(world)] == [Trend.NEW, Trend.QUIET]
    world.clock.advance(120)
    keeper = FailureRecords(world.engine)
    assert await keeper.prune(10) == 1
    assert await keeper.prune(10) == 0
    assert [one.error_type for one in await groups(world)] == ["New"]
    assert failure_group.HOURS == 24
