"""How executions went, read from rollups: minutes, hours and days, on both engines."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from taskforge.control.sampler import Sampler
from taskforge.domain.errors import Invalid
from taskforge.domain.forecast import Outlook
from taskforge.domain.metrics import Metrics, Period, Subject
from taskforge.domain.outcome import Finish, ToFailed, ToHandBack, ToRetry, ToSucceeded
from taskforge.domain.rollup import KEPT_DAYS, Grain
from taskforge.domain.term import Deposed
from taskforge.domain.worker import Sample
from taskforge.operations.forecasts import forecast_queue
from taskforge.operations.metrics import (
    read_by_job_type,
    read_by_queue,
    read_by_worker,
    read_metrics,
)
from taskforge.operations.store_metrics import StoreMetrics
from taskforge.storage.records.rollups import RollupRecords
from tests.support.world import ERROR, World

HOUR, DAY = 3_600.0, 86_400.0


async def run_jobs(
    world: World, count: int = 1, seconds: float = 1.0, queue: str = "default"
) -> None:
    """So many jobs that succeed after so many seconds."""
    await world.enqueue_many(count, queue)
    claimed = await world.claim(await world.worker(), count)
    await world.engine.finish([Finish(one.fence, ToSucceeded(), seconds) for one in claimed])


async def fold(world: World) -> None:
    while await world.engine.fold(100):
        pass


async def read(world: World, subject: Subject | None = None, **period: Any) -> Metrics:
    await fold(world)
    project = world.engine.home
    return await read_metrics(world.engine, [project], subject or Subject(), Period(**period))


async def test_every_way_to_end_is_counted_apart(world: World) -> None:
    await world.enqueue_many(5)
    world.clock.advance(2)
    claimed = await world.claim(await world.worker())
    endings = [
        ToSucceeded(),
        ToSucceeded(),
        ToFailed(ERROR, "no"),
        ToRetry(5.0, ERROR),
        ToHandBack("stop"),
    ]
    await world.engine.finish(
        [
            Finish(one.fence, ending, ran)
            for one, ending, ran in zip(claimed, endings, (1.0, 3.0, 9.0, 9.0, 9.0), strict=True)
        ]
    )
    totals = (await read(world, last_seconds=600)).totals
    assert (totals.executions, totals.succeeded, totals.failed, totals.cancelled) == (5, 2, 2, 1)
    assert (totals.failed_for_good, totals.retry_scheduled, totals.dead_letter) == (1, 1, 0)
    assert totals.success_rate == 50.0
    duration = totals.duration_ms
    assert (duration.avg, duration.min, duration.max) == (2000.0, 1000.0, 3000.0)
    assert duration.p50 == pytest.approx(1000, rel=0.01)
    assert duration.p95 == pytest.approx(3000, rel=0.01)
    assert totals.wait_ms.p50 == pytest.approx(2000, rel=0.01)


async def test_each_queue_type_and_worker_has_figures_of_its_own(world: World) -> None:
    await world.queue("mail")
    await run_jobs(world, 3)
    await run_jobs(world, 2, queue="mail")
    project = world.engine.home
    await fold(world)
    by_queue = await read_by_queue(world.engine, project, Period())
    assert {one.name: one.metrics.totals.executions for one in by_queue} == {
        "default": 3,
        "mail": 2,
    }
    assert [
        one.name for one in await read_by_queue(world.engine, project, Period(), after="d")
    ] == [
        "default",
        "mail",
    ]
    [behind] = await read_by_queue(world.engine, project, Period(), after="default")
    assert behind.name == "mail"
    [job_type] = await read_by_job_type(world.engine, project, Period())
    assert (job_type.name, job_type.metrics.totals.executions) == ("work", 5)
    workers = await read_by_worker(world.engine, project, Period())
    assert sum(one.metrics.totals.executions for one in workers) == 5
    mail = UUID(str(behind.id))
    for one in workers:
        pair = await read(world, Subject(queue=mail, worker=one.id))
        assert pair.totals.executions in (0, 2)
    with pytest.raises(Invalid):
        await read(world, Subject(queue=mail, job_type="work"))
    with pytest.raises(Invalid):
        await read_by_queue(world.engine, project, Period(last_seconds=HOUR), limit=201)


async def test_a_series_has_a_point_for_each_step(world: World) -> None:
    for count in (2, 0, 3):
        if count:
            await run_jobs(world, count)
        world.clock.advance(60)
    metrics = await read(world, last_seconds=240, step_seconds=60)
    assert [point.figures.executions for point in metrics.series] == [0, 2, 0, 3, 0]
    assert metrics.totals.executions == 5
    assert metrics.step_seconds == 60
    assert metrics.series[0].at == metrics.since


async def test_minutes_become_hours_and_hours_days_and_nothing_is_counted_twice(
    world: World,
) -> None:
    for _ in range(6):
        await run_jobs(world, 2, 0.5)
        world.clock.advance(10 * HOUR)
        await fold(world)
        for seconds in (HOUR, DAY, 3 * DAY, 30 * DAY):
            totals = (await read(world, last_seconds=seconds)).totals
            assert totals.executions <= 12
    assert (await read(world, last_seconds=30 * DAY)).totals.executions == 12
    assert (await read(world, last_seconds=3 * DAY, step_seconds=HOUR)).totals.executions == 12
    by_day = await read(world, last_seconds=4 * DAY, step_seconds=DAY)
    assert sum(point.figures.executions for point in by_day.series) == 12
    steps = dict(await world.probe.rows("select step, count(*) from rollups group by step"))
    assert set(steps) == {0, 1, 2}


async def test_what_comes_late_is_added_to_an_hour_that_was_summed_up(world: World) -> None:
    await run_jobs(world, 1)
    late = (await world.enqueue_many(1), await world.claim(await world.worker()))[1]
    await fold(world)
    await world.engine.finish([Finish(one.fence, ToSucceeded(), 1.0) for one in late])
    world.clock.advance(2 * HOUR)  # an hour that is over, and a delta that nobody has folded
    assert (await read(world, last_seconds=DAY)).totals.executions == 2
    await fold(world)
    assert (await read(world, last_seconds=DAY)).totals.executions == 2


async def test_cells_go_when_their_time_is_over_and_totals_stay(world: World) -> None:
    await run_jobs(world, 2)
    world.clock.advance(HOUR * 26)
    await fold(world)

    async def steps() -> set[int]:
        await world.engine.prune(1_000.0, 100)
        return {step for (step,) in await world.probe.rows("select distinct step from rollups")}

    assert await steps() == {Grain.MINUTE, Grain.HOUR, Grain.DAY}
    world.clock.advance(KEPT_DAYS[Grain.MINUTE] * DAY)
    assert await steps() == {Grain.HOUR, Grain.DAY}
    assert (await read(world, last_seconds=10 * DAY)).totals.executions == 2
    world.clock.advance(KEPT_DAYS[Grain.HOUR] * DAY)
    assert await steps() == {Grain.DAY}
    assert (await read(world, last_seconds=200 * DAY)).totals.executions == 2
    world.clock.advance(KEPT_DAYS[Grain.DAY] * DAY)
    for _ in range(2):  # the walk over scopes that finds them empty
        assert await steps() == set()
    assert await world.probe.count("rollup_scopes") == 0


async def test_a_minute_that_is_not_summed_up_is_not_removed(world: World) -> None:
    await run_jobs(world, 2)
    await world.engine.fold(1)
    world.clock.advance(5 * DAY)
    await world.engine.prune(1_000.0, 100)
    assert (await read(world, last_seconds=10 * DAY)).totals.executions == 2


async def test_what_is_read_does_not_grow_with_executions(world: World) -> None:
    """By the cells that a month's totals take: one for a scope and time, whatever ran in it."""
    read_cells = []
    for count in (1, 40):
        await run_jobs(world, count)
        await fold(world)
        scopes = [scope.number for scope in await RollupRecords(world.engine).of_project(1)]
        now = int(world.clock.now().timestamp()) // 60
        cells = await RollupRecords(world.engine).cells(scopes, Grain.MINUTE, now - 100, now + 1)
        read_cells.append(len(cells))
    assert read_cells == [1, 1]


async def test_a_look_at_queues_and_workers_goes_to_their_figures(world: World) -> None:
    worker = await world.worker("loaded")
    for cpu, memory in ((20.0, 1_000), (60.0, 3_000)):
        await world.engine.renew(worker.incarnation, 1e6, Sample(cpu, memory))
        await world.enqueue_many(3)
        world.clock.advance(60)
        assert await Sampler(world.engine).look(0) == 2
    [queue] = await world.engine.queues([world.engine.home])
    waits = (await read(world, Subject(queue=queue.id))).totals
    assert (waits.max_pending, waits.oldest_pending_seconds) == (6, 120.0)
    loaded = (await read(world, Subject(worker=worker.worker))).totals
    assert (loaded.cpu_percent.avg, loaded.cpu_percent.max) == (40.0, 60.0)
    assert loaded.memory_bytes.max == 3_000
    assert loaded.executions == 0
    with pytest.raises(Deposed):
        await Sampler(world.engine).look(7)


async def test_jobs_that_arrive_are_counted_once_whoever_leads(world: World) -> None:
    rollups = RollupRecords(world.engine)
    await world.queue("mail")
    assert await rollups.count_arrivals(0, world.clock.now()) == 1
    for _ in range(3):
        await world.enqueue_many(2)
        await world.enqueue_many(1, "mail")
        world.clock.advance(65)
        assert await rollups.count_arrivals(0, world.clock.now()) > 0
        assert await RollupRecords(world.engine).count_arrivals(0, world.clock.now()) == 0
    totals = (await read(world)).totals
    assert (totals.arrived, totals.executions) == (9, 0)
    assert (await read(world, Subject(job_type="work"))).totals.arrived == 9
    by_queue = await read_by_queue(world.engine, world.engine.home, Period())
    assert {one.name: one.metrics.totals.arrived for one in by_queue} == {"default": 6, "mail": 3}
    with pytest.raises(Deposed):
        await rollups.count_arrivals(7, world.clock.now() + timedelta(minutes=5))


async def test_nobody_reads_the_figures_of_another_project(world: World) -> None:
    await run_jobs(world, 2)
    await fold(world)
    other = await world.probe.add_project("other")
    since = world.clock.now() - timedelta(hours=1)
    metrics = await read_metrics(world.engine, [other], Subject(), Period(since=since))
    assert metrics.totals.executions == 0
    assert await read_by_queue(world.engine, other, Period()) == []


async def test_a_queue_is_foretold_by_its_last_minutes(world: World) -> None:
    rollups = RollupRecords(world.engine)
    await rollups.count_arrivals(0, world.clock.now())
    await world.enqueue_many(300)
    for _ in range(18):
        world.clock.advance(60)
        claimed = await world.claim(await world.worker(), 10)
        await world.engine.finish([Finish(one.fence, ToSucceeded(), 1.0) for one in claimed])
    await rollups.count_arrivals(0, world.clock.now())
    await fold(world)
    [queue] = [one.id for one in await world.engine.queues([world.engine.home])]
    told = await forecast_queue(world.engine, StoreMetrics(world.engine), queue)
    assert (told.outlook, told.pending) == (Outlook.DRAINING, 120)
    assert (told.arrived_per_minute, told.ended_per_minute) == (0.0, 10.0)
    assert told.drain is not None
    assert told.drain.likely == 720.0
