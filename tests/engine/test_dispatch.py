"""Jobs of balanced queues are placed on workers, and only those take them."""

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.control.dispatcher import Dispatcher, backlog_of
from taskforge.domain.assignment import Assign
from taskforge.domain.balancer import weighted
from taskforge.domain.changes import CancelJob, EditJob
from taskforge.domain.dispatch import PlacedJob, QueuePlacements
from taskforge.domain.errors import Invalid
from taskforge.domain.ids import epoch_of, job_of
from taskforge.domain.job import Claimed, JobStatus, new_job
from taskforge.domain.outcome import Finish, ToHandBack, ToRetry, ToSkipped, ToSucceeded
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.term import Deposed
from taskforge.domain.worker import Registered, Sample, UpdateWorker
from taskforge.storage.occupancy import LANES_IN_ONE_SURVEY
from taskforge.storage.records.cluster import ClusterRecords
from tests.support.nodes import a_node
from tests.support.world import ERROR, World

PAUSED_TOO = QueueSettings(load_balancing="round_robin", accept_while_paused=True)


async def lead(world: World) -> int:
    cluster = ClusterRecords(world.engine)
    term = await cluster.take(a_node(), (await cluster.look(a_node())).reign, 60.0)
    assert term is not None
    return term


async def crew(world: World, count: int = 3, **options: Any) -> list[Registered]:
    """Workers that have been heard of, in the order of their ids."""
    workers = [
        await world.online_worker(name=f"worker {number}", **options) for number in range(count)
    ]
    return sorted(workers, key=lambda one: one.worker)


async def balanced(world: World, policy: str, **settings: Any) -> Queue:
    return await world.queue("spread", load_balancing=policy, **settings)


async def change_worker(world: World, worker: Registered, **changes: Any) -> None:
    change = UpdateWorker(worker=worker.worker, **changes)
    await world.engine.change_worker(FIRST_PROJECT, change)


async def take_all(world: World, worker: Registered, limit: int = 100) -> list[Claimed]:
    taken: list[Claimed] = []
    while claimed := await world.claim(worker, limit):
        assert not await world.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
        taken += claimed
    return taken


async def shares(world: World, workers: list[Registered]) -> list[int]:
    """How many jobs each takes of what is placed."""
    return [len(await take_all(world, worker)) for worker in workers]


async def test_nobody_takes_a_job_before_it_is_placed_and_then_only_that_worker(
    world: World,
) -> None:
    await balanced(world, "round_robin")
    workers = await crew(world)
    await world.enqueue_many(9, "spread")
    assert await shares(world, workers) == [0, 0, 0]
    assert (await world.stats("spread")).pending == 9
    done = await Dispatcher(world.engine).once(await lead(world))
    assert (done.placed, done.waiting) == (9, 0)
    assert (await world.stats("spread")).pending == 9
    assert await shares(world, workers) == [3, 3, 3]


async def test_queues_that_are_pulled_have_no_dispatcher(world: World) -> None:
    await world.queue("pulled")
    await world.enqueue("pulled")
    assert await world.engine.balanced_queues(0, 10) is None
    assert not (await Dispatcher(world.engine).once(await lead(world))).is_needed
    [worker] = await crew(world, 1)
    assert len(await world.claim(worker)) == 1


async def test_shares_follow_weights_within_one_percent_whoever_leads(world: World) -> None:
    queue = await balanced(world, "weighted_round_robin")
    workers = await crew(world, max_concurrent_jobs=50)
    weights = dict(zip((one.worker for one in workers), (5, 3, 2), strict=True))
    for worker, weight in weights.items():
        await world.engine.change_assignment(FIRST_PROJECT, Assign(queue.id, worker, weight))
    jobs, taken = 10_000, Counter[UUID]()
    for _ in range(10):
        await world.enqueue_many(jobs // 10, "spread")
    while sum(taken.values()) < jobs:
        # Each time another leader, which goes on where the last one was.
        await Dispatcher(world.engine).once(await lead(world))
        for worker in workers:
            taken[worker.worker] += len(await take_all(world, worker))
    for worker, weight in weights.items():
        assert taken[worker] == pytest.approx(jobs * weight / 10, abs=jobs * weight / 1_000)


async def test_the_next_leader_goes_on_where_the_last_one_was(world: World) -> None:
    await balanced(world, "round_robin")
    workers = await crew(world)
    for _ in range(3):
        await world.enqueue("spread")
        await Dispatcher(world.engine).once(await lead(world))
    assert await shares(world, workers) == [1, 1, 1]


async def test_the_least_loaded_worker_gets_the_next_job(world: World) -> None:
    await balanced(world, "least_load")
    small, large = await crew(world, 2, max_concurrent_jobs=4)
    await change_worker(world, large, max_concurrent_jobs=12)
    await world.enqueue_many(8, "spread")
    await Dispatcher(world.engine).once(await lead(world))
    assert await shares(world, [small, large]) == [2, 6]


async def test_where_load_decides_nobody_gets_more_than_it_can_start_soon(world: World) -> None:
    await balanced(world, "least_load")
    await crew(world, 1, max_concurrent_jobs=4)
    await world.enqueue_many(100, "spread")
    done = await Dispatcher(world.engine).once(await lead(world))
    assert (done.placed, done.waiting) == (8, 92)


async def test_a_key_stays_with_its_worker_and_goes_on_elsewhere_when_that_is_gone(
    world: World,
) -> None:
    await balanced(world, "sticky")
    workers = await crew(world)
    keys = [f"customer {number}" for number in range(60)]
    term = await lead(world)

    async def homes(serving: list[Registered]) -> dict[str, UUID]:
        for key in keys:
            await world.enqueue("spread", payload=key, fairness_key=key)
        await Dispatcher(world.engine).once(term)
        return {
            one.payload.decode().strip('"'): worker.worker
            for worker in serving
            for one in await take_all(world, worker)
        }

    before = await homes(workers)
    assert set(before) == set(keys)
    assert set(Counter(before.values())) == {one.worker for one in workers}
    assert await homes(workers) == before
    await world.engine.deregister(workers[0].incarnation)
    after = await homes(workers[1:])
    assert {key for key in keys if before[key] != workers[0].worker} == {
        key for key in keys if after[key] == before[key]
    }


@pytest.mark.parametrize("how", ["draining", "dead", "unhealthy", "gone"])
async def test_what_is_placed_on_a_worker_that_is_lost_is_placed_anew_unspent(
    world: World, how: str
) -> None:
    await balanced(world, "round_robin")
    lost, other = await crew(world, 2, lease=60.0)
    jobs = await world.enqueue_many(10, "spread")
    dispatcher, term = Dispatcher(world.engine), await lead(world)
    await dispatcher.once(term)
    match how:
        case "draining":
            await change_worker(world, lost, drain_mode=True)
        case "unhealthy":
            await world.engine.renew(lost.incarnation, 60.0, Sample(healthy=False))
        case "gone":
            await world.engine.deregister(lost.incarnation)
        case "dead":
            world.clock.advance(30)
            await world.engine.renew(other.incarnation, 60.0, Sample())
            world.clock.advance(40)
            await world.engine.renew(other.incarnation, 60.0, Sample())
    await dispatcher.once(term)
    await dispatcher.once(term)
    claimed = await world.claim(other, 20)
    assert {job_of(one.fence) for one in claimed} == set(jobs)
    assert {(one.attempt, epoch_of(one.fence)) for one in claimed} == {(1, 1)}


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_what_is_tried_again_handed_back_or_skipped_is_placed_anew(
    world: World, timeout: float | None
) -> None:
    await balanced(world, "round_robin")
    first, second = await crew(world, 2)
    dispatcher, term = Dispatcher(world.engine), await lead(world)
    await world.enqueue("spread", timeout_seconds=timeout)
    await dispatcher.once(term)
    for transition in (ToHandBack("stopping"), ToRetry(0.0, ERROR), ToSkipped("not mine")):
        worker = first
        if not (claimed := await world.claim(worker)):
            worker = second
            claimed = await world.claim(worker)
        assert not await world.engine.finish([Finish(claimed[0].fence, transition)])
        assert not await world.claim(first)
        assert not await world.claim(second)
        await dispatcher.once(term)
    # Whoever skipped it does not get it again.
    other = second if worker is first else first
    assert len(await world.claim(other)) == 1


async def test_placed_jobs_are_cancelled_edited_and_counted_like_any_other(world: World) -> None:
    queue = await balanced(world, "round_robin")
    [worker] = await crew(world, 1)
    one, two, three = await world.enqueue_many(3, "spread")
    dispatcher, term = Dispatcher(world.engine), await lead(world)
    await dispatcher.once(term)
    await world.change(one, CancelJob())
    await world.change(two, EditJob(priority=5))
    assert await world.status(one) is JobStatus.CANCELLED
    assert (await world.stats("spread")).pending == 2
    # An edited job waits to be placed again.
    assert await world.claim_jobs(worker) == [three]
    await dispatcher.once(term)
    assert await world.claim_jobs(worker) == [two]
    await world.enqueue("spread")
    await dispatcher.once(term)
    await world.pause(queue)
    assert await world.claim(worker) == []
    await world.update(queue, settings=PAUSED_TOO)
    await world.enqueue("spread")
    assert (await dispatcher.once(term)).placed == 0


async def test_back_to_pull_whoever_is_free_takes_what_was_placed(world: World) -> None:
    queue = await balanced(world, "round_robin")
    workers = await crew(world, 2)
    await world.enqueue_many(10, "spread")
    await Dispatcher(world.engine).once(await lead(world))
    await world.enqueue_many(2, "spread")
    assert len(await world.claim(workers[0])) == 5
    await world.update(queue, settings=QueueSettings())
    assert len(await world.claim(workers[0], 5)) == 5
    assert len(await take_all(world, workers[1])) == 2


async def test_from_fairness_to_balance_keys_stand_for_workers(world: World) -> None:
    queue = await world.queue("spread", fairness={})
    [worker] = await crew(world, 1)
    # The worker's own view of lanes outlives the change.
    await world.queue("other", load_balancing="round_robin")
    await world.enqueue("other")
    assert await world.claim(worker) == []
    for key in "abc":
        await world.enqueue("spread", fairness_key=key)
    assert len(await world.claim(worker, 1)) == 1
    await world.update(queue, settings=QueueSettings(load_balancing="least_load"))
    assert await world.claim(worker) == []
    dispatcher, term = Dispatcher(world.engine), await lead(world)
    await dispatcher.once(term)
    await dispatcher.once(term)
    assert len(await world.claim(worker)) == 3


async def test_only_workers_that_may_take_a_job_get_it(world: World) -> None:
    await balanced(world, "round_robin")
    able = await world.online_worker(name="able", capabilities={"gpu": True})
    plain = await world.online_worker(name="plain")
    await world.enqueue_many(4, "spread", requires={"gpu": True})
    done = await Dispatcher(world.engine).once(await lead(world))
    assert done.placed == 4
    assert await shares(world, [able, plain]) == [4, 0]


async def test_however_many_other_lanes_hold_jobs_a_balanced_queue_is_found(world: World) -> None:
    await world.queue("pulled")
    kinds = LANES_IN_ONE_SURVEY + 1
    await world.insert(*(new_job("pulled", f"type {number}") for number in range(kinds)))
    await balanced(world, "round_robin")
    workers = await crew(world, 1, queues=("spread",))
    await world.enqueue_many(3, "spread")
    assert (await Dispatcher(world.engine).once(await lead(world))).placed == 3
    assert await shares(world, workers) == [3]


async def test_a_deposed_leader_places_nothing(world: World) -> None:
    await balanced(world, "round_robin")
    workers = await crew(world, 1)
    await world.enqueue_many(3, "spread")
    old = await lead(world)
    await lead(world)
    with pytest.raises(Deposed):
        await Dispatcher(world.engine).once(old)
    assert await shares(world, workers) == [0]


async def test_what_was_placed_meanwhile_stays_where_it_is(world: World) -> None:
    """A leader that stood still between its look and its write."""
    await balanced(world, "round_robin")
    first, second = await crew(world, 2)
    await world.enqueue_many(2, "spread")
    seen = await world.engine.balanced_queues(0, 10)
    assert seen is not None
    [stale] = seen.items
    term = await lead(world)
    await Dispatcher(world.engine).once(term)
    late = tuple(PlacedJob(job.fence, job.lane, job.turn, second.worker) for job in stale.jobs)
    again = QueuePlacements(stale.queue.number, FIRST_PROJECT, late, stale.position)
    assert await world.engine.place([again], term) == 0
    assert await shares(world, [first, second]) == [1, 1]


async def test_whoever_waits_for_work_hears_of_a_placement(world: World) -> None:
    await balanced(world, "round_robin")
    await crew(world, 1)
    await world.enqueue("spread")
    term = await lead(world)
    heard = asyncio.Event()
    stop = world.engine.on_work(heard.set)
    try:
        await asyncio.sleep(0.2)  # what the enqueue told has been heard
        heard.clear()
        await Dispatcher(world.engine).once(term)
        async with asyncio.timeout(0.4):
            await heard.wait()
    finally:
        stop()


async def test_the_most_urgent_and_the_oldest_are_placed_first(world: World) -> None:
    await balanced(world, "least_load")
    [worker] = await crew(world, 1, max_concurrent_jobs=1)
    oldest = await world.enqueue("spread", job_type="b")
    world.clock.advance(1)
    await world.enqueue("spread", job_type="a")
    world.clock.advance(1)
    urgent = await world.enqueue("spread", job_type="c", priority=9)
    done = await Dispatcher(world.engine).once(await lead(world))
    assert (done.placed, done.waiting) == (2, 1)
    taken = [await world.claim_one(worker)]
    await world.finish(taken[0].fence, ToSucceeded())
    taken.append(await world.claim_one(worker))
    assert [job_of(one.fence) for one in taken] == [urgent, oldest]


async def test_a_worker_gets_no_more_of_two_queues_than_of_one(world: World) -> None:
    await balanced(world, "least_load")
    await world.queue("beside", load_balancing="least_load")
    [worker] = await crew(world, 1, max_concurrent_jobs=2)
    await world.enqueue_many(10, "spread")
    await world.enqueue_many(10, "beside")
    dispatcher, term = Dispatcher(world.engine), await lead(world)
    assert (await dispatcher.once(term)).placed == 4
    assert (await dispatcher.once(term)).placed == 0
    # What runs takes room too.
    assert len(await world.claim(worker)) == 2
    assert (await Dispatcher(world.engine).once(term)).placed == 0


def test_a_balanced_queue_has_no_fairness() -> None:
    with pytest.raises(Invalid, match=r"settings\.load_balancing.*fairness"):
        QueueSettings.parse({"load_balancing": "sticky", "fairness": {}})
    with pytest.raises(Invalid, match="round_robin, weighted_round_robin"):
        QueueSettings.parse({"load_balancing": "roundrobin"})


# --- Twins: what the tests above must catch ---


async def test_a_dispatcher_that_ignores_weights_is_caught(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unweighted(credit: Any, candidates: Any) -> Any:
        alike = [msgspec.structs.replace(one, weight=1) for one in candidates]
        return weighted(credit, alike)

    monkeypatch.setattr("taskforge.domain.dispatch.weighted", unweighted)
    with pytest.raises(AssertionError):
        await test_shares_follow_weights_within_one_percent_whoever_leads(world)


async def test_a_placement_that_survives_its_worker_is_caught(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lasting(*arguments: Any) -> Any:
        return msgspec.structs.replace(backlog_of(*arguments), adrift=())

    monkeypatch.setattr("taskforge.control.dispatcher.backlog_of", lasting)
    with pytest.raises(AssertionError):
        await test_what_is_placed_on_a_worker_that_is_lost_is_placed_anew_unspent(world, "gone")
