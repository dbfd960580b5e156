from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.changes import (
    CancelJob,
    DeleteJob,
    EditJob,
    ErasePayload,
    ExpireJob,
    RedriveJob,
    RetryJob,
)
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import JobStatus
from taskforge.domain.job_page import MOST_PAGE_BYTES, Counted, JobPage, next_page, size_of
from taskforge.domain.job_parts import WHOLE, JobPart
from taskforge.domain.log import Level, NewLine
from taskforge.domain.query import JobFilter, Page, cursor_at
from tests.support.stores import ALSO_WALLED
from tests.support.world import World, ids, refusal

pytestmark = ALSO_WALLED


async def listed(world: World, page: Page | None = None, **wanted: object) -> list[UUID]:
    found = await world.engine.list_jobs([1], filter_of(**wanted), page or Page(limit=1_000))
    return ids(found.jobs)


def filter_of(**wanted: Any) -> JobFilter:
    """Fields by their singular, with one value."""
    plural = {
        "queue": "queues",
        "job_type": "job_types",
        "priority": "priorities",
        "tag": "tags",
    }
    return JobFilter(
        **{
            plural.get(name, name): (value,) if name in plural else value
            for name, value in wanted.items()
        }
    )


async def test_jobs_are_got_in_the_order_asked_and_missing_ones_left_out(world: World) -> None:
    jobs = await world.enqueue_many(3)
    unknown = IdMint(lambda: 5)()
    asked = [jobs[2], unknown, jobs[0], jobs[1]]
    assert ids(await world.engine.get([1], asked)) == [jobs[2], jobs[0], jobs[1]]
    assert await world.engine.get([1], []) == []
    assert await world.engine.get([1], [unknown]) == []


async def test_every_status_is_listed_newest_first(world: World) -> None:
    made = []
    for status in JobStatus:
        world.clock.advance(1)
        made.append((await world.bring(status), status))
    assert await listed(world) == [job for job, _ in reversed(made)]
    for job, status in made:
        assert await listed(world, statuses=(status,)) == [job]
    found = (await world.engine.list_jobs([1], JobFilter(), Page(include=WHOLE))).jobs
    assert [job.status for job in found] == [status for _, status in reversed(made)]
    assert found == await world.engine.get([1], ids(found))
    some = (JobStatus.FAILED, JobStatus.PENDING)
    assert await listed(world, statuses=some) == [
        job for job, status in reversed(made) if status in some
    ]


async def test_a_list_brings_payloads_and_results_only_when_asked(world: World) -> None:
    job = await world.bring(JobStatus.SUCCEEDED)
    [whole] = await world.engine.get([1], [job])
    assert whole.payload is not None
    for include in (frozenset(), {JobPart.PAYLOAD}, {JobPart.RESULT}, WHOLE):
        page = Page(include=frozenset(include))
        [found] = (await world.engine.list_jobs([1], JobFilter(), page)).jobs
        assert found == msgspec.structs.replace(
            whole,
            payload=whole.payload if JobPart.PAYLOAD in include else None,
            result=whole.result if JobPart.RESULT in include else None,
        )


async def test_a_page_ends_at_some_bytes_and_pages_go_through_all_jobs_once(world: World) -> None:
    sizes = [100, 200_000, 100, 250_000] * 12
    made = [await world.enqueue("default", "a", "x" * size) for size in sizes]
    seen: list[UUID] = []
    page: Page | None = Page(limit=1_000, include=WHOLE)
    pages = 0
    while page is not None:
        found = await world.engine.list_jobs([1], JobFilter(), page)
        assert sum(map(size_of, found.jobs)) < MOST_PAGE_BYTES + 256 * 1024
        seen += ids(found.jobs)
        page = next_page(page, found)
        pages += 1
    assert (seen, pages) == (made[::-1], 2)
    assert len(await listed(world)) == len(made), "what is left out takes no room"


async def test_each_filter_narrows_and_they_combine(world: World) -> None:
    await world.queue("mail")
    a = await world.enqueue("default", "a", priority=1, tags=["red", "blue"])
    b = await world.enqueue("default", "b", priority=2, tags=["red"])
    c = await world.enqueue("mail", "a", priority=2)
    assert await listed(world, queue="default") == [b, a]
    assert await listed(world, queue="mail") == [c]
    assert await listed(world, job_type="a") == [c, a]
    assert await listed(world, priority=2) == [c, b]
    assert await listed(world, tag="red") == [b, a]
    assert await listed(world, tag="blue") == [a]
    assert await listed(world, tag="green") == []
    assert await listed(world, queue="default", priority=2, tag="red", job_type="b") == [b]
    assert await listed(world, queue="mail", tag="red") == []
    assert await listed(world, tag="red", statuses=(JobStatus.PENDING,)) == [b, a]
    assert await listed(world, tag="red", statuses=(JobStatus.FAILED,)) == []


async def test_the_queue_is_the_present_one(world: World) -> None:
    await world.queue("mail")
    job = await world.enqueue()
    await world.change(job, EditJob(queue="mail", priority=6))
    assert await listed(world, queue="default") == []
    assert await listed(world, queue="mail", priority=6) == [job]
    await world.change(job, CancelJob())
    assert await listed(world, queue="mail", statuses=(JobStatus.CANCELLED,)) == [job]


async def test_an_unknown_queue_is_named_with_the_nearest(world: World) -> None:
    with pytest.raises(NotFound) as caught:
        await listed(world, queue="defualt")
    assert caught.value.nearest == "default"


async def test_times_are_half_open(world: World) -> None:
    jobs, times = [], []
    for _ in range(4):
        times.append(world.clock.advance(10))
        jobs.append(await world.enqueue())
    assert await listed(world, created_after=times[1], created_before=times[3]) == [
        jobs[2],
        jobs[1],
    ]
    assert await listed(world, created_after=times[3]) == [jobs[3]]
    assert await listed(world, created_before=times[0]) == []


async def test_due_times_mean_scheduled_jobs(world: World) -> None:
    jobs = [await world.enqueue(at=seconds) for seconds in (10, 20, 30)]
    await world.enqueue()
    after = world.clock.after
    assert set(await listed(world, scheduled_after=after(0))) == set(jobs)
    assert await listed(world, scheduled_after=after(20), scheduled_before=after(30)) == [jobs[1]]
    assert await listed(world, scheduled_before=after(10)) == []
    assert await listed(world, scheduled_after=after(0), statuses=(JobStatus.PENDING,)) == []


@pytest.mark.parametrize(
    "wanted", [{}, {"tag": "t"}, {"queue": "default"}, {"statuses": (JobStatus.PENDING,)}]
)
async def test_pages_by_cursor_and_by_offset_cover_everything_once(
    world: World, wanted: dict[str, object]
) -> None:
    jobs = await world.enqueue_many(25, tags=["t"])
    jobs.reverse()
    by_cursor: list[UUID] = []
    cursor = None
    while page := await listed(world, Page(limit=7, cursor=cursor), **wanted):
        by_cursor += page
        cursor = cursor_at(page[-1])
        await world.enqueue(tags=["t"])
    assert by_cursor == jobs
    assert (
        await listed(world, Page(limit=5, offset=4), **wanted)
        == (await listed(world, **wanted))[4:9]
    )
    assert await listed(world, Page(limit=5, offset=500), **wanted) == []


async def test_a_page_that_cannot_be_is_refused(world: World) -> None:
    for field, page in [
        ("limit", Page(limit=0)),
        ("limit", Page(limit=1_001)),
        ("offset", Page(offset=-1)),
        ("cursor", Page(cursor="made up")),
    ]:
        with pytest.raises(Invalid) as caught:
            await listed(world, page)
        assert caught.value.field == field


async def test_a_range_that_lies_in_the_past_of_all_ids(world: World) -> None:
    await world.enqueue()
    assert await listed(world, created_before=world.clock.now().replace(year=1970)) == []


# --- Projects see nothing of each other ---


async def test_another_projects_jobs_are_invisible_in_every_read_and_change(world: World) -> None:
    second = await world.probe.add_project("second")
    dead = await world.queue("default", project=second)
    assert dead.project == second
    running = await world.enqueue(project=second, tags=["t"])
    claimed = await world.claim_one(await world.worker(project=second))
    await world.engine.log([NewLine(claimed.fence, Level.INFO, "secret")])
    pending, scheduled = (
        await world.enqueue(project=second, tags=["t"]),
        await world.enqueue(project=second, at=60),
    )
    finished = await world.enqueue(project=second)
    await world.engine.change([second], [finished], CancelJob())
    theirs = [running, pending, scheduled, finished]
    before = await world.engine.get([second], theirs)
    assert len(before) == 4

    assert await world.engine.get([1], theirs) == []
    assert await world.engine.get([], theirs) == []
    for wanted in (
        JobFilter(),
        JobFilter(queues=("default",)),
        JobFilter(tags=("t",)),
        JobFilter(statuses=tuple(JobStatus)),
        JobFilter(scheduled_after=world.clock.now()),
        JobFilter(job_types=("work",)),
    ):
        for page in (Page(), Page(cursor=cursor_at(theirs[-1]))):
            assert await world.engine.list_jobs([1], wanted, page) == JobPage([], None)
        assert await world.engine.count_jobs([1], wanted) == Counted(0, more=False)
    for job in theirs:
        assert await world.engine.executions([1], job) == []
        assert (
            await world.engine.logs([1], job, least=Level.TRACE, after=0, limit=10, offset=0) == []
        )
    for timed_out in (False, True):
        assert await world.engine.active_executions([1], timed_out=timed_out, limit=10) == []
    assert [one.total for one in await world.engine.stats([1])] == [0]
    for change in (
        CancelJob(),
        RetryJob(),
        EditJob(priority=5),
        RedriveJob(),
        DeleteJob(),
        ErasePayload(),
        ExpireJob("x"),
    ):
        for answer in await world.engine.change([1], theirs, change):
            assert refusal(answer, NotFound).kind == "job"
        for answer in await world.engine.change([], theirs, change):
            refusal(answer, NotFound)
    assert await world.engine.get([second], theirs) == before


async def test_several_projects_may_be_read_at_once(world: World) -> None:
    second = await world.probe.add_project("second")
    await world.queue("default", project=second)
    ours = await world.enqueue()
    world.clock.advance(1)
    theirs = await world.enqueue(project=second)
    found = (await world.engine.list_jobs([1, second], JobFilter(), Page())).jobs
    assert [(job.id, job.project) for job in found] == [(theirs, second), (ours, 1)]
    assert {one.total for one in await world.engine.stats([1, second])} == {1}
    assert ids(await world.engine.get([second, 1], [ours, theirs])) == [ours, theirs]
    wanted = JobFilter(queues=("default",))
    assert len((await world.engine.list_jobs([1, second], wanted, Page())).jobs) == 2
    assert await world.engine.count_jobs([1, second], wanted) == Counted(2, more=False)


async def test_a_fence_is_no_job_id(world: World) -> None:
    job, fence = await world.running()
    assert await world.engine.get([1], [fence]) == []
    assert await world.engine.executions([1], fence_of(job, 2)) == []
