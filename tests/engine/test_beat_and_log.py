import itertools
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.changes import CancelJob, RetryJob
from taskforge.domain.execution import Beat, ExecutionStatus
from taskforge.domain.ids import fence_of
from taskforge.domain.job import error_info
from taskforge.domain.log import MAX_MESSAGE, Level, Line, NewLine
from taskforge.domain.outcome import (
    Finish,
    HeartbeatMissed,
    Lost,
    ToFailed,
    ToHandBack,
    ToRetry,
    ToSnoozed,
    ToSucceeded,
)
from tests.support.world import ERROR, World

TIMEOUT = error_info("Timeout", "too long")


async def lines(world: World, job: object, **wanted: object) -> list[Line]:
    options = {"least": Level.TRACE, "after": 0, "limit": 100, "offset": 0} | wanted
    return await world.engine.logs([1], job, **options)  # type: ignore[arg-type]


# --- Beats ---


async def test_a_beat_is_seen_with_progress_and_message(world: World) -> None:
    job, fence = await world.running()
    world.clock.advance(3)
    assert await world.engine.beat([Beat(fence=fence, progress=0.25, message="a quarter")]) == []
    found = await world.job(job)
    assert (found.progress, found.progress_message) == (0.25, "a quarter")
    [execution] = await world.engine.executions([1], job)
    assert (execution.status, execution.heartbeat_at) == (
        ExecutionStatus.RUNNING,
        world.clock.now(),
    )
    # Nobody said when it began: its claim is the earliest that it can have been, and its time is
    # not made longer.
    assert (execution.started_at, execution.timeout_at) == (
        world.clock.after(-3),
        world.clock.after(297),
    )
    assert found.started_at == execution.started_at


async def test_what_a_beat_does_not_say_stays(world: World) -> None:
    job, fence = await world.running()
    await world.engine.beat([Beat(fence=fence, progress=0.5, message="half")])
    await world.engine.beat([Beat(fence=fence)])
    await world.engine.beat([Beat(fence=fence, progress=0.75)])
    found = await world.job(job)
    assert (found.progress, found.progress_message) == (0.75, "half")


async def test_progress_is_kept_when_the_job_ends(world: World) -> None:
    job, fence = await world.running()
    await world.engine.beat([Beat(fence=fence, progress=1.0, message="done")])
    await world.finish(fence, ToSucceeded())
    found = await world.job(job)
    assert (found.progress, found.progress_message) == (1.0, "done")


async def test_the_start_counts_once_and_moves_the_timeout(world: World) -> None:
    job, fence = await world.running(timeout_seconds=100)
    world.clock.advance(50)
    await world.engine.beat([Beat(fence=fence, started_seconds_ago=10.0)])
    started = world.clock.after(-10)
    [execution] = await world.engine.executions([1], job)
    assert (execution.started_at, execution.timeout_at) == (started, world.clock.after(90))
    assert (await world.job(job)).started_at == started
    world.clock.advance(20)
    await world.engine.beat([Beat(fence=fence, started_seconds_ago=1.0)])
    [execution] = await world.engine.executions([1], job)
    assert (execution.started_at, execution.timeout_at) == (started, world.clock.after(70))
    world.clock.advance(71)
    assert [one.fence for one in await world.engine.lapsed(10)] == [fence]


async def test_beats_hold_off_the_heartbeat_timeout(world: World) -> None:
    await world.queue("watched", heartbeat_timeout_seconds=10)
    _, fence = await world.running(queue="watched")
    for _ in range(5):
        world.clock.advance(9)
        assert await world.engine.lapsed(10) == []
        assert await world.engine.beat([Beat(fence=fence)]) == []
    world.clock.advance(11)
    [lapsed] = await world.engine.lapsed(10)
    assert lapsed.fence == fence


async def test_a_start_is_no_heartbeat_but_the_timeout_counts_from_it(world: World) -> None:
    await world.queue("watched", heartbeat_timeout_seconds=10)
    job, fence = await world.running(queue="watched")
    world.clock.advance(5)
    await world.engine.beat([Beat(fence=fence, started_seconds_ago=2.0, alive=False)])
    world.clock.advance(3)
    # said again, it changes nothing
    await world.engine.beat([Beat(fence=fence, started_seconds_ago=5.0, alive=False)])
    await world.engine.beat([Beat(fence=fence, alive=False)])
    world.clock.advance(4)
    assert await world.engine.lapsed(10) == []
    world.clock.advance(1)
    [lapsed] = await world.engine.lapsed(10)
    assert (lapsed.fence, lapsed.outcome) == (fence, HeartbeatMissed(10))
    [execution] = await world.engine.executions([1], job)
    assert (execution.status, execution.started_at) == (
        ExecutionStatus.STARTED,
        world.clock.after(-10),
    )
    # The handler itself is heard of: from then on its beats count, whatever its worker says of its
    # start.
    await world.engine.beat([Beat(fence=fence, progress=0.5)])
    world.clock.advance(9)
    await world.engine.beat([Beat(fence=fence, started_seconds_ago=1.0, alive=False)])
    assert await world.engine.lapsed(10) == []
    world.clock.advance(1)
    assert [one.fence for one in await world.engine.lapsed(10)] == [fence]


async def test_all_that_one_call_says_of_a_job_counts_and_its_start_once(world: World) -> None:
    job, fence = await world.running(timeout_seconds=100)
    world.clock.advance(50)
    told = [
        Beat(fence=fence, started_seconds_ago=10.0, alive=False),
        Beat(fence=fence, progress=0.25, message="a quarter"),
        Beat(fence=fence, progress=0.5),
        Beat(fence=fence, started_seconds_ago=1.0, alive=False),
    ]
    assert await world.engine.beat(told) == []
    [execution] = await world.engine.executions([1], job)
    assert (execution.started_at, execution.timeout_at) == (
        world.clock.after(-10),
        world.clock.after(90),
    )
    assert (execution.status, execution.heartbeat_at) == (
        ExecutionStatus.RUNNING,
        world.clock.now(),
    )
    found = await world.job(job)
    assert (found.progress, found.progress_message) == (0.5, "a quarter")
    await world.finish(fence, ToSucceeded())
    assert await world.engine.beat(told) == [Lost(fence)]


async def test_lost_beats_are_reported_and_change_nothing(world: World) -> None:
    job = await world.enqueue()
    worker = await world.worker()
    stale = (await world.claim_one(worker)).fence
    await world.finish(stale, ToHandBack("by mistake"))
    assert await world.engine.beat([Beat(fence=stale, progress=0.9)]) == [Lost(stale)]
    current = (await world.claim_one(worker)).fence
    before = await world.job(job)
    lost = await world.engine.beat(
        [Beat(fence=stale, progress=0.9, started_seconds_ago=1.0), Beat(fence=fence_of(job, 9))]
    )
    assert sorted(one.fence for one in lost) == [stale, fence_of(job, 9)]
    assert await world.job(job) == before
    assert await world.engine.beat([Beat(fence=current), Beat(fence=stale)]) == [Lost(stale)]
    assert await world.engine.beat([]) == []


async def test_many_beats_in_one_call(world: World) -> None:
    jobs = await world.enqueue_many(50)
    claimed = await world.claim(await world.worker(), 50)
    beats = [Beat(fence=one.fence, progress=number / 50) for number, one in enumerate(claimed)]
    assert await world.engine.beat(beats) == []
    found = await world.engine.get([1], jobs)
    assert [job.progress for job in found] == [number / 50 for number in range(50)]


# --- Logs ---


async def test_lines_come_back_in_order_with_their_time(world: World) -> None:
    job, fence = await world.running()
    world.clock.advance(10)
    written = [
        NewLine(fence, Level.INFO, "first", b'{"n":1}', 2.0),
        NewLine(fence, Level.ERROR, "second"),
        NewLine(fence, Level.TRACE, "third"),
    ]
    assert await world.engine.log(written) == []
    found = await lines(world, job)
    assert [(line.level, line.message, line.execution) for line in found] == [
        (Level.INFO, "first", fence),
        (Level.ERROR, "second", fence),
        (Level.TRACE, "third", fence),
    ]
    assert [line.logged_at for line in found] == [
        world.clock.after(-2),
        world.clock.now(),
        world.clock.now(),
    ]
    assert found[0].metadata == msgspec.Raw(b'{"n":1}')
    assert found[1].metadata is None
    assert [line.id for line in found] == sorted({line.id for line in found})


async def test_lines_are_read_by_level_cursor_and_offset(world: World) -> None:
    job, fence = await world.running()
    await world.engine.log(
        [NewLine(fence, Level.INFO if n % 2 else Level.WARN, str(n)) for n in range(10)]
    )
    everything = await lines(world, job)
    assert [line.message for line in await lines(world, job, least=Level.WARN)] == [
        "0",
        "2",
        "4",
        "6",
        "8",
    ]
    assert [line.message for line in await lines(world, job, limit=3)] == ["0", "1", "2"]
    assert [line.message for line in await lines(world, job, after=everything[6].id)] == [
        "7",
        "8",
        "9",
    ]
    assert [line.message for line in await lines(world, job, offset=8)] == ["8", "9"]
    assert await lines(world, job, least=Level.ERROR) == []


async def test_a_long_message_is_split_and_an_empty_one_kept(world: World) -> None:
    job, fence = await world.running()
    await world.engine.log(
        [NewLine(fence, Level.INFO, "x" * (2 * MAX_MESSAGE + 5)), NewLine(fence, Level.INFO, "")]
    )
    found = await lines(world, job)
    assert [len(line.message) for line in found] == [MAX_MESSAGE, MAX_MESSAGE, 5, 1]
    job, fence = await world.running()
    await world.engine.log([NewLine(fence, Level.INFO, "nul \x00 and half a pair \ud800")])
    assert len(await lines(world, job)) == 1


async def test_lost_lines_are_reported_once_for_each_fence(world: World) -> None:
    job, fence = await world.running()
    _, ended = await world.running()
    await world.engine.finish([Finish(ended, ToSucceeded())])
    lost = await world.engine.log(
        [
            NewLine(ended, Level.INFO, "late"),
            NewLine(fence, Level.INFO, "in time"),
            NewLine(ended, Level.INFO, "later still"),
            NewLine(fence_of(job, 7), Level.INFO, "never"),
        ]
    )
    assert sorted(one.fence for one in lost) == sorted([ended, fence_of(job, 7)])
    assert [line.message for line in await lines(world, job)] == ["in time"]
    assert await world.probe.count("logs") == 1


async def test_a_line_counts_as_a_sign_of_life(world: World) -> None:
    job, fence = await world.running()
    await world.engine.log([NewLine(fence, Level.INFO, "hello")])
    world.clock.advance(1)
    [execution] = await world.engine.executions([1], job)
    assert (execution.status, execution.started_at) == (
        ExecutionStatus.RUNNING,
        world.clock.after(-1),
    )
    assert (await world.job(job)).started_at == execution.started_at


async def test_lines_of_every_attempt_stay_with_the_job(world: World) -> None:
    job = await world.enqueue()
    fences = []
    for number in range(3):
        claimed = await world.claim_one(await world.worker())
        fences.append(claimed.fence)
        await world.engine.log([NewLine(claimed.fence, Level.INFO, f"attempt {number}")])
        await world.finish(claimed.fence, ToHandBack("again"))
    found = await lines(world, job)
    assert [(line.execution, line.message) for line in found if line.ended is None] == [
        (fence, f"attempt {number}") for number, fence in enumerate(fences)
    ]
    assert [line.execution for line in found] == [fence for fence in fences for _ in range(2)]


async def tried(world: World) -> tuple[UUID, list[UUID]]:
    """A job with an end of each kind, and two lines before each: (job, fences)."""
    job = await world.enqueue(max_attempts=9)
    endings = [
        ToRetry(0.0, ERROR),
        ToSnoozed(0.0, "later"),
        ToRetry(0.0, TIMEOUT),
        ToFailed(ERROR, "no more"),
    ]
    fences = []
    worker = await world.worker()
    for transition in endings:
        fence = (await world.claim_one(worker)).fence
        fences.append(fence)
        await world.engine.log(
            [NewLine(fence, Level.INFO, "begins"), NewLine(fence, Level.ERROR, "hm")]
        )
        world.clock.advance(1)
        await world.finish(fence, transition, ran=1.0)
    await world.change(job, RetryJob())
    fences.append((await world.claim_one(worker)).fence)
    await world.finish(fences[-1], ToSucceeded())
    return job, fences


TOLD = [
    "begins",
    "hm",
    "attempt 1 failed after 1.0 s: ValueError: boom; a retry is scheduled",
    "begins",
    "hm",
    "attempt 2 ended after 1.0 s: later",
    "begins",
    "hm",
    "attempt 2 timed out after 1.0 s; a retry is scheduled",
    "begins",
    "hm",
    "attempt 3 failed after 1.0 s: ValueError: boom; failed for good (no more)",
    "attempt 4 succeeded in 0 ms",
]


async def test_every_end_leaves_a_line_of_its_own(world: World) -> None:
    job, fences = await tried(world)
    found = await lines(world, job)
    assert [line.message for line in found] == TOLD
    assert [line.ended for line in found if line.ended is not None] == [
        ExecutionStatus.RETRY_SCHEDULED,
        ExecutionStatus.CANCELLED,
        ExecutionStatus.RETRY_SCHEDULED,
        ExecutionStatus.FAILED,
        ExecutionStatus.SUCCEEDED,
    ]
    assert [line.id for line in found] == sorted({line.id for line in found})
    executions = {one.id: one for one in await world.engine.executions([1], job)}
    assert list(executions) == fences
    assert all(
        line.logged_at == executions[line.execution].finished_at
        for line in found
        if line.ended is not None
    )


@pytest.mark.parametrize("least", [Level.TRACE, Level.WARN, Level.ERROR])
async def test_pages_and_levels_hold_for_ends_too(world: World, least: Level) -> None:
    job, fences = await tried(world)
    for limit, execution in itertools.product((1, 2, 3, 5), (None, fences[1], fences[-1])):
        everything = [
            line
            for line in await lines(world, job)
            if line.level >= least and execution in (None, line.execution)
        ]
        paged: list[Line] = []
        while page := await lines(
            world,
            job,
            least=least,
            limit=limit,
            after=paged[-1].id if paged else 0,
            execution=execution,
        ):
            paged += page
        assert paged == everything
        offsets = range(len(everything) + 1)
        skipped = [
            await lines(world, job, least=least, limit=limit, offset=offset, execution=execution)
            for offset in offsets
        ]
        assert skipped == [everything[offset : offset + limit] for offset in offsets]


async def test_what_runs_and_what_never_ran_has_no_end(world: World) -> None:
    job, _ = await world.running()
    assert await lines(world, job) == []
    never = await world.enqueue()
    await world.change(never, CancelJob())
    assert await lines(world, never) == []
