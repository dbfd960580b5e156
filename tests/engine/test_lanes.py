"""Many lanes: which of them a claim asks, in which order, and how many a project may have."""

import random
from uuid import UUID

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import Conflict
from taskforge.domain.ids import job_of
from taskforge.domain.job import Inserted, NewJob, Refused, new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import CreateQueue, UpdateQueue
from tests.support.world import World

LANES = 150  # several times as many as a small claim asks


async def fill(world: World, lanes: int = LANES, rounds: int = 2) -> list[UUID]:
    """Jobs of very many types, one after the other; returns them in the order of their turns."""
    order = random.Random(7)
    jobs = []
    for _ in range(rounds):
        types = list(range(lanes))
        order.shuffle(types)
        for start in range(0, lanes, 10):
            answers = await world.insert(
                *(new_job("default", f"type-{number}") for number in types[start : start + 10])
            )
            jobs += [answer.job for answer in answers if isinstance(answer, Inserted)]
            world.clock.advance(0.001)
    return jobs


async def test_small_claims_over_very_many_lanes_take_the_oldest_first(world: World) -> None:
    expected = await fill(world)
    worker = await world.worker(max_concurrent_jobs=1_000)
    taken: list[UUID] = []
    while len(taken) < len(expected):
        claimed = await world.claim_jobs(worker, 7)
        assert claimed
        taken += claimed
    assert taken == expected
    assert await world.claim_jobs(worker, 7) == []


@pytest.mark.parametrize("limit", [1, 40, 250])
async def test_no_job_of_very_many_lanes_is_left_behind(world: World, limit: int) -> None:
    expected = set(await fill(world, rounds=1 if limit == 1 else 3))
    worker = await world.worker(max_concurrent_jobs=1_000)
    taken: set[UUID] = set()
    for _ in range(len(expected)):
        claimed = await world.claim(worker, limit)
        if not claimed:
            break
        taken |= {job_of(one.fence) for one in claimed}
        await world.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
    assert taken == expected


async def test_a_better_tier_goes_first_whatever_stands_in_very_many_lanes(world: World) -> None:
    await world.queue("urgent", priority=5)
    await fill(world)
    worker = await world.worker(max_concurrent_jobs=1_000)
    await world.claim(worker, 5)
    urgent = await world.enqueue("urgent")
    assert await world.claim_jobs(worker, 1) == [urgent]
    urgent = await world.enqueue("default", priority=9)
    assert (await world.claim_jobs(worker, 120))[0] == urgent


async def test_a_lane_that_is_paused_among_very_many_is_passed_over_and_found_again(
    world: World,
) -> None:
    other = await world.queue("other")
    paused = [await world.enqueue("other", f"type-{number}") for number in range(40)]
    expected = await fill(world, rounds=1)
    other = await world.pause(other)
    worker = await world.worker(max_concurrent_jobs=1_000)
    taken = [job for _ in range(20) for job in await world.claim_jobs(worker, 10)]
    assert taken == expected
    await world.resume(other)
    assert await world.claim_jobs(worker, 40) == paused


async def test_a_job_in_a_lane_that_another_process_made_is_found(world: World) -> None:
    worker = await world.worker()
    assert await world.claim(worker) == []
    other = await world.another()
    for number in range(3):
        [answer] = await other.insert(1, [new_job("default", f"new-{number}")])
        assert isinstance(answer, Inserted)
        assert await world.claim_jobs(worker) == [answer.job]
        assert await world.claim(worker) == []


async def test_limited_queues_that_are_full_do_not_hide_the_lanes_behind_them(
    world: World,
) -> None:
    await world.queue("narrow", max_concurrent_jobs=1)
    for number in range(80):
        await world.enqueue("narrow", f"type-{number}")
    world.clock.advance(1)
    behind = [await world.enqueue("default", f"type-{number}") for number in range(3)]
    worker = await world.worker(max_concurrent_jobs=1_000)
    claimed = await world.claim_jobs(worker, 4)
    assert len(claimed) == 4
    assert claimed[1:] == behind
    assert await world.claim_jobs(worker, 4) == []


# --- What a change costs others ---


async def versions(world: World) -> dict[int, int]:
    rows = await world.probe.rows("select number, catalog_version from projects")
    return {number: version for number, version in rows}  # noqa: C416 - rows may be longer


async def test_a_change_in_one_project_is_none_in_another(world: World) -> None:
    neighbour = await world.probe.add_project("neighbour")
    before = await versions(world)
    queue = await world.engine.change_queue(neighbour, CreateQueue(name="theirs"))
    await world.engine.change_queue(neighbour, UpdateQueue(queue=queue.id, description="x"))
    after = await versions(world)
    assert after[1] == before[1]
    assert after[neighbour] > before[neighbour]


async def test_a_new_type_priority_or_requirement_changes_no_catalog(world: World) -> None:
    before = await versions(world)
    await world.enqueue(job_type="never seen")
    await world.enqueue(priority=7)
    await world.insert(new_job("default", "work", requires={"gpu": True}))
    assert await versions(world) == before


# --- How many there may be ---


async def test_a_project_has_no_more_lanes_than_it_may_have(world: World) -> None:
    await world.enqueue(job_type="known")
    await world.probe.rows("update projects set most_lanes = 3 where number = 1 returning number")
    jobs = [new_job("default", name) for name in ("a", "known", "b", "c", "a", "d", "c")]
    answers = await world.insert(*jobs)
    assert [isinstance(answer, Inserted) for answer in answers] == [
        True, True, True, False, True, False, False,
    ]  # fmt: skip
    for answer in answers:
        if isinstance(answer, Refused):
            assert isinstance(answer.error, Conflict)
            assert "3 combinations of queue, job type, priority and requirements" in str(
                answer.error
            )
    [answer] = await world.insert(NewJob(queue="default", job_type="e", payload=b"null"))
    assert isinstance(answer, Refused)
    worker = await world.worker()
    assert len(await world.engine.claim(Claim(worker.incarnation, 10))) == 5


async def test_dead_letters_and_moves_are_never_refused_for_their_lanes(world: World) -> None:
    from taskforge.domain.changes import EditJob

    job = await world.enqueue()
    await world.probe.rows("update projects set most_lanes = 1 where number = 1 returning number")
    await world.change(job, EditJob(priority=5))
    assert (await world.job(job)).priority == 5
