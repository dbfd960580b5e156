"""Circuits: job types and dependencies that fail too often are held back."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.breaker import Breaker, Mode
from taskforge.domain.circuit import Circuit, CircuitName
from taskforge.domain.claim import Claim
from taskforge.domain.errors import NotFound
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Claimed, new_job
from taskforge.domain.outcome import (
    Finish,
    ToCancelled,
    ToFailed,
    ToHandBack,
    ToRetry,
    ToSucceeded,
    Transition,
)
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Registered, Sample
from taskforge.ports.engine import Engine
from taskforge.storage.records.circuits import CircuitRecords
from tests.support.world import ERROR, World

BREAKER = {"least_calls": 4, "window_seconds": 60, "open_seconds": 30, "probes": 2}
BAD, GOOD = ToFailed(ERROR, "down"), ToSucceeded()


async def end(engine: Engine, claimed: list[Claimed], transition: Transition) -> None:
    assert not await engine.finish([Finish(one.fence, transition) for one in claimed])


async def circuits(world: World, **wanted: Any) -> list[Circuit]:
    return await CircuitRecords(world.engine).circuits([FIRST_PROJECT], **wanted)


async def modes(world: World) -> dict[str | None, str]:
    return {one.dependency or one.job_type: one.mode.value for one in await circuits(world)}


async def fail(world: World, worker: Registered, count: int) -> None:
    claimed = await world.claim(worker, count)
    assert len(claimed) == count
    await end(world.engine, claimed, BAD)


async def wake(world: World, seconds: float = 30.0) -> int:
    world.clock.advance(seconds)
    return await CircuitRecords(world.engine).wake_due(100)


async def opened(world: World, jobs: int = 10) -> Registered:
    """A worker before an open circuit of `work` in `q`, behind which so many jobs wait."""
    await world.queue("q", circuit_breaker=BREAKER)
    worker = await world.worker()
    await world.enqueue_many(4 + jobs, "q")
    await fail(world, worker, 4)
    assert await modes(world) == {"work": "open"}
    return worker


async def test_too_many_failures_open_it_and_then_nothing_is_handed_out(world: World) -> None:
    worker = await opened(world)
    assert await world.claim(worker) == []
    # Other types of the queue, and its type in other queues, are others' business.
    await world.enqueue("q", "mail")
    await world.enqueue("default")
    assert {one.job_type for one in await world.claim(worker)} == {"mail", "work"}
    world.clock.advance(29)
    assert await wake(world, 0) == 0
    assert await world.claim(worker) == []


async def test_failures_are_counted_together_whichever_process_they_end_in(world: World) -> None:
    """Four failures, each in a process of its own."""
    await world.queue("q", circuit_breaker=BREAKER)
    worker = await world.worker()
    await world.enqueue_many(6, "q")
    engines = [world.engine, await world.another(), await world.another(), await world.another()]
    for engine, one in zip(engines, await world.claim(worker, 4), strict=True):
        assert await modes(world) in ({}, {"work": "closed"})
        await end(engine, [one], BAD)
    assert await modes(world) == {"work": "open"}
    assert await world.claim(worker) == []


async def test_what_waits_behind_an_open_circuit_spends_no_attempt(world: World) -> None:
    await world.queue("q", circuit_breaker=BREAKER)
    worker = await world.worker()
    jobs = await world.enqueue_many(6, "q", max_attempts=2)
    for one in await world.claim(worker, 4):
        await world.finish(one.fence, ToRetry(1.0, ERROR))
    world.clock.advance(5)
    assert await world.engine.stage(10) == 4
    assert await world.claim(worker) == []
    assert [(await world.job(job)).attempt_count for job in jobs] == [1, 1, 1, 1, 0, 0]


async def test_half_open_lets_so_many_probes_through_and_closes_when_they_succeed(
    world: World,
) -> None:
    worker = await opened(world)
    other = await world.another()
    assert await wake(world) == 1
    assert await modes(world) == {"work": "half_open"}
    first = await world.claim(worker, 1)
    again = await other.claim(Claim(worker.incarnation, 10))
    assert (len(first), len(again)) == (1, 1)
    assert await world.claim(worker) == []
    await end(world.engine, first, GOOD)
    assert await world.claim(worker) == []  # both must succeed
    await end(other, again, GOOD)
    assert await modes(world) == {"work": "closed"}
    assert len(await world.claim(worker, 100)) == 8


async def test_one_failed_probe_opens_it_again(world: World) -> None:
    worker = await opened(world)
    await wake(world)
    await fail(world, worker, 2)
    assert await modes(world) == {"work": "open"}
    assert await world.claim(worker) == []
    assert await wake(world, 29) == 0
    assert await wake(world, 1) == 1
    await end(world.engine, await world.claim(worker), GOOD)
    assert await modes(world) == {"work": "closed"}


async def test_what_was_claimed_before_it_opened_says_nothing_to_the_probes(world: World) -> None:
    await world.queue("q", circuit_breaker=BREAKER)
    worker = await world.worker()
    await world.enqueue_many(20, "q")
    early = await world.claim(worker, 4)
    await fail(world, worker, 4)
    world.clock.advance(1)
    await end(world.engine, early[:2], GOOD)
    await wake(world)
    await end(world.engine, early[2:3], BAD)
    await end(world.engine, early[3:], GOOD)
    assert await modes(world) == {"work": "half_open"}
    assert len(await world.claim(worker)) == 2


async def test_where_keys_take_turns_it_opens_and_is_probed_as_anywhere(world: World) -> None:
    await world.queue("q", circuit_breaker=BREAKER, fairness={})
    worker = await world.worker()
    for number in range(20):
        await world.enqueue("q", fairness_key=f"key {number % 5}")
    await fail(world, worker, 4)
    assert await modes(world) == {"work": "open"}
    assert await world.claim(worker) == []
    await wake(world)
    assert await modes(world) == {"work": "half_open"}
    assert len(await world.claim(worker, 100)) == 2


@pytest.mark.parametrize("given_back", [ToHandBack("stop"), ToCancelled("not wanted")])
async def test_a_probe_that_gave_no_answer_leaves_its_place_to_another(
    world: World, given_back: Transition
) -> None:
    worker = await opened(world)
    await wake(world)
    await end(world.engine, await world.claim(worker), given_back)
    assert await modes(world) == {"work": "half_open"}
    assert len(await world.claim(worker)) == 2


async def test_probes_that_never_answer_do_not_hold_it_half_open(world: World) -> None:
    worker = await opened(world)
    await wake(world)
    assert len(await world.claim(worker)) == 2
    assert await wake(world, 29) == 0
    assert await wake(world, 1) == 1
    assert len(await world.claim(worker)) == 2


async def test_by_hand_it_stays_open_until_somebody_closes_it(world: World) -> None:
    queue = await world.queue("q")
    worker = await world.worker()
    await world.enqueue_many(3, "q")
    meant, records = CircuitName("q", "work"), CircuitRecords(await world.another())
    made = await records.move(FIRST_PROJECT, meant, Mode.OPEN)
    assert (made.mode, made.is_forced, made.queue_id, made.due_at) == ("open", True, queue.id, None)
    assert await wake(world, 1e5) == 0
    assert await world.claim(worker) == []
    closed = await records.move(FIRST_PROJECT, meant, Mode.CLOSED)
    assert (closed.mode, closed.is_forced) == ("closed", False)
    assert len(await world.claim(worker)) == 3


async def depending(world: World, **depends_on: tuple[str, ...]) -> Registered:
    return await world.worker(types=("charge", "refund", "mail"), depends_on=depends_on)


async def test_types_share_the_circuit_of_what_they_depend_on_across_queues(world: World) -> None:
    await world.queue("a")
    worker = await depending(world, charge=("stripe",), refund=("bank", "stripe"))
    records = CircuitRecords(world.engine)
    await records.set_dependency(FIRST_PROJECT, "stripe", Breaker(**BREAKER))
    for queue in ("a", "default"):
        for job_type in ("charge", "refund", "mail"):
            await world.insert(*[_job(queue, job_type) for _ in range(8)])
    ends = {"charge": BAD, "refund": BAD, "mail": GOOD}
    for _ in range(2):
        for one in await world.claim(worker, 6):
            await world.finish(one.fence, ends[one.job_type])
    assert await modes(world) == {"bank": "closed", "stripe": "open"}
    left = await world.claim(worker, 100)
    assert {one.job_type for one in left} == {"mail"}
    [found] = await circuits(world, mode=Mode.OPEN)
    assert (found.dependency, found.job_types) == ("stripe", ("charge", "refund"))
    await wake(world)
    probes = await world.claim(worker, 100)
    assert len(probes) == 2
    await end(world.engine, probes, GOOD)
    assert await modes(world) == {"bank": "closed", "stripe": "closed"}
    assert await world.claim(worker, 100)


async def test_what_a_type_depends_on_is_what_the_last_worker_says(world: World) -> None:
    await depending(world, charge=("stripe",))
    assert [one.job_types for one in await circuits(world)] == [("charge",)]
    worker = await depending(world, charge=("bank",))
    records = CircuitRecords(world.engine)
    await records.move(FIRST_PROJECT, CircuitName(dependency="stripe"), Mode.OPEN)
    await world.insert(_job("default", "charge"))
    assert len(await world.claim(worker)) == 1
    await world.insert(_job("default", "charge"))
    await records.move(FIRST_PROJECT, CircuitName(dependency="bank"), Mode.OPEN)
    assert await world.claim(worker) == []
    await records.remove_dependency(FIRST_PROJECT, "bank")
    assert len(await world.claim(worker)) == 1
    with pytest.raises(NotFound, match="stripe"):
        await records.move(FIRST_PROJECT, CircuitName(dependency="strip"), Mode.OPEN)


async def test_changes_are_told(world: World) -> None:
    cursor = (await world.engine.events(None, 1)).cursor
    worker = await opened(world)
    await wake(world)
    await end(world.engine, await world.claim(worker), GOOD)
    events = (await world.engine.events(cursor, 100)).items
    told = [one for one in events if one.topic.startswith("circuit.")]
    assert [one.topic for one in told] == [
        "circuit.opened",
        "circuit.half_opened",
        "circuit.closed",
    ]
    assert told[0].details == '{"queue":"q","job_type":"work","by_hand":false}'
    assert all(isinstance(one.at, datetime) for one in told)


def _job(queue: str, job_type: str) -> Any:
    return new_job(queue, job_type)


async def test_explain_says_what_a_circuit_holds_back_and_until_when(world: World) -> None:
    worker = await opened(world, 3)
    await world.engine.renew(worker.incarnation, 1e6, Sample())
    world.clock.advance(0.001)
    job = await world.enqueue("q")
    urgent = await world.enqueue("default", priority=0)
    first, *_ = (await explain(world, job)).reasons
    assert (first.code, first.until) == ("circuit_open", world.clock.after(29.999))
    assert first.text == (
        "the circuit of job type 'work' in its queue is open, because too much failed: a few jobs "
        "try it in 30 s"
    )
    later = await world.enqueue("q", at=600)
    assert [one.code for one in (await explain(world, later)).reasons] == [
        "scheduled",
        "circuit_open",
    ]
    # What is held back goes before nothing.
    assert [one.code for one in (await explain(world, urgent)).reasons] == ["next"]
    await wake(world)
    assert [one.code for one in (await explain(world, job)).reasons] == [
        "circuit_probing",
        "behind",
    ]


async def explain(world: World, job: UUID) -> Explanation:
    return await world.engine.explain([FIRST_PROJECT], job)
