"""Assignments: a queue with active ones is served by those workers alone, for every process, from
the next claim on."""

from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from taskforge.domain.assignment import Assign, Reassign, Unassign
from taskforge.domain.audit import Note
from taskforge.domain.claim import Claim
from taskforge.domain.errors import Conflict, Invalid, NotFound, Stale
from taskforge.domain.outcome import ToHandBack, ToSkipped
from taskforge.domain.queue import DeleteQueue, Queue
from taskforge.domain.worker import Registered
from taskforge.ports.engine import Engine
from tests.engine.test_audit import entries, said
from tests.support.stores import ALSO_WALLED
from tests.support.world import World, until

pytestmark = ALSO_WALLED


async def default(world: World) -> Queue:
    [queue] = [queue for queue in await world.engine.queues([1]) if queue.name == "default"]
    return queue


async def serves(world: World, worker: Registered, engine: Engine | None = None) -> bool:
    """Whether the worker is given a job now; the job goes back."""
    claimed = await (engine or world.engine).claim(Claim(worker.incarnation, 1))
    for one in claimed:
        await world.finish(one.fence, ToHandBack("only looked"))
    return bool(claimed)


# --- Keeping them ---


async def test_an_assignment_comes_back_as_it_was_made(world: World, other: Engine) -> None:
    queue, worker = await default(world), await world.worker()
    made = await world.engine.change_assignment(
        1, Assign(queue.id, worker.worker, 7, is_active=False)
    )
    assert (made.queue, made.worker, made.project, made.weight, made.is_active) == (
        queue.id,
        worker.worker,
        1,
        7,
        False,
    )
    assert made.created_at == made.updated_at == world.clock.now()
    assert await world.engine.assignments([1]) == await other.assignments([1]) == [made]
    plain = await world.engine.change_assignment(
        1, Assign((await world.queue("mail")).id, worker.worker)
    )
    assert (plain.weight, plain.is_active) == (1, True)
    assert await world.engine.assignments([1]) == [made, plain]


async def test_an_assignment_is_changed_and_removed(world: World) -> None:
    queue, worker = await default(world), await world.worker()
    made = await world.engine.change_assignment(1, Assign(queue.id, worker.worker, 7))
    world.clock.advance(5)
    changed = await world.engine.change_assignment(1, Reassign(queue.id, worker.worker, weight=100))
    assert (changed.weight, changed.is_active, changed.created_at) == (100, True, made.created_at)
    assert changed.updated_at == world.clock.now()
    changed = await world.engine.change_assignment(
        1, Reassign(queue.id, worker.worker, is_active=False)
    )
    assert (changed.weight, changed.is_active) == (100, False)
    assert await world.engine.change_assignment(1, Unassign(queue.id, worker.worker)) == changed
    assert await world.engine.assignments([1]) == []
    await world.engine.change_assignment(1, Assign(queue.id, worker.worker))


async def test_a_change_meant_for_another_mark_is_refused(world: World, other: Engine) -> None:
    queue, worker = await default(world), await world.worker()
    made = await world.engine.change_assignment(1, Assign(queue.id, worker.worker, 7))
    changed = await other.change_assignment(
        1, Reassign(queue.id, worker.worker, weight=8, expected_mark=made.mark)
    )
    for change in (Reassign(queue.id, worker.worker, weight=9), Unassign(queue.id, worker.worker)):
        with pytest.raises(Stale):
            await world.engine.change_assignment(
                1, msgspec.structs.replace(change, expected_mark=made.mark)
            )
    assert await world.engine.assignments([1]) == [changed]
    await world.engine.change_assignment(
        1, Unassign(queue.id, worker.worker, expected_mark=changed.mark)
    )
    assert await world.engine.assignments([1]) == []


async def test_what_does_not_fit_is_refused(world: World) -> None:
    queue, worker = await default(world), await world.worker()
    second = await world.probe.add_project("second")
    theirs, stranger = (
        await world.queue("theirs", project=second),
        await world.worker(project=second),
    )
    refused: list[tuple[type[Exception], Any]] = [
        (NotFound, Assign(uuid4(), worker.worker)),
        (NotFound, Assign(queue.id, uuid4())),
        (NotFound, Assign(theirs.id, worker.worker)),
        (NotFound, Assign(queue.id, stranger.worker)),
        (NotFound, Assign(queue.id, worker.incarnation)),
        (NotFound, Reassign(queue.id, worker.worker, weight=2)),
        (NotFound, Unassign(queue.id, worker.worker)),
        *[(Invalid, Assign(queue.id, worker.worker, weight)) for weight in (0, 101, True, "3")],  # type: ignore[arg-type]
        (Invalid, Reassign(queue.id, worker.worker)),
        (Invalid, Reassign(queue.id, worker.worker, is_active=1)),  # type: ignore[arg-type]
    ]
    for kind, change in refused:
        with pytest.raises(kind):
            await world.engine.change_assignment(
                1, change, note=Note(actor="a", action="assignment.change")
            )
    assert await world.engine.assignments([1, second]) == []
    await world.engine.change_assignment(1, Assign(queue.id, worker.worker, 3))
    with pytest.raises(Conflict):
        await world.engine.change_assignment(1, Assign(queue.id, worker.worker, 4))
    with pytest.raises(NotFound):
        await world.engine.change_assignment(second, Unassign(queue.id, worker.worker))
    assert [one.weight for one in await world.engine.assignments([1])] == [3]
    assert await entries(world) == []


async def test_assignments_are_listed_by_project_and_go_with_their_queue(world: World) -> None:
    second = await world.probe.add_project("second")
    theirs, stranger = (
        await world.queue("theirs", project=second),
        await world.worker(project=second),
    )
    mail, worker = await world.queue("mail"), await world.worker()
    mine = await world.engine.change_assignment(1, Assign(mail.id, worker.worker))
    other = await world.engine.change_assignment(second, Assign(theirs.id, stranger.worker))
    assert await world.engine.assignments([1]) == [mine]
    assert await world.engine.assignments([1, second]) == [mine, other]
    assert await world.engine.assignments([]) == []
    await world.engine.change_queue(1, DeleteQueue(queue=mail.id))
    assert await world.engine.assignments([1, second]) == [other]
    with pytest.raises(NotFound):
        await world.engine.change_assignment(1, Unassign(mail.id, worker.worker))


# --- Who serves ---


async def test_a_queue_with_assignments_is_served_by_those_workers_alone(
    world: World, other: Engine
) -> None:
    queue, mine, stranger = await default(world), await world.worker(), await world.worker()
    await world.enqueue()
    assert await serves(world, stranger, other)
    await world.engine.change_assignment(1, Assign(queue.id, mine.worker))
    assert not await serves(world, stranger, other)
    assert await serves(world, mine, other)
    await world.engine.change_assignment(1, Reassign(queue.id, mine.worker, is_active=False))
    assert await serves(world, stranger, other)
    await world.engine.change_assignment(1, Reassign(queue.id, mine.worker, is_active=True))
    assert not await serves(world, stranger, other)
    await other.change_assignment(1, Assign(queue.id, stranger.worker))
    assert await serves(world, stranger)
    await other.change_assignment(1, Unassign(queue.id, mine.worker))
    assert not await serves(world, mine)
    await other.change_assignment(1, Unassign(queue.id, stranger.worker))
    assert await serves(world, mine)


async def test_an_assignment_holds_for_every_life_of_a_worker(world: World) -> None:
    queue, first = await default(world), await world.worker("w")
    await world.engine.change_assignment(1, Assign(queue.id, first.worker))
    await world.enqueue()
    again = await world.worker("w")
    assert again.incarnation != first.incarnation
    assert await serves(world, again)


async def test_other_queues_are_served_as_before(world: World) -> None:
    queue, mine, stranger = await default(world), await world.worker(), await world.worker()
    await world.queue("mail")
    await world.engine.change_assignment(1, Assign(queue.id, mine.worker))
    job = await world.enqueue("mail")
    assert await world.claim_jobs(stranger) == [job]


async def test_an_assigned_worker_takes_a_dead_letter_queue_it_did_not_name(world: World) -> None:
    dead = await world.queue("dead")
    await world.queue("mail", dead_letter_queue_id=dead.id)
    worker, named = await world.worker(), await world.worker(queues=("dead",))
    job = await world.enqueue("dead")
    assert not await serves(world, worker)
    await world.engine.change_assignment(1, Assign(dead.id, worker.worker))
    assert not await serves(world, named)
    assert await world.claim_jobs(worker) == [job]


async def test_a_worker_that_names_its_queues_takes_no_other(world: World) -> None:
    queue, picky = await default(world), await world.worker(queues=("mail",))
    await world.engine.change_assignment(1, Assign(queue.id, picky.worker))
    await world.enqueue()
    assert not await serves(world, picky)


async def test_a_job_skipped_by_every_assigned_worker_fails(world: World) -> None:
    queue, mine = await default(world), await world.worker()
    await world.worker()
    await world.engine.change_assignment(1, Assign(queue.id, mine.worker))
    await world.enqueue()
    claimed = await world.claim_one(mine)
    await world.finish(claimed.fence, ToSkipped("not mine"))
    assert await world.engine.expire(10) == 1


async def test_a_changed_assignment_wakes_workers(world: World, other: Engine) -> None:
    queue, worker = await default(world), await world.worker()
    woken: list[UUID] = []
    stop = other.on_work(lambda: woken.append(uuid4()))
    try:
        for change in (Assign(queue.id, worker.worker), Unassign(queue.id, worker.worker)):
            woken.clear()
            await world.engine.change_assignment(1, change)
            await until(lambda: bool(woken))
    finally:
        stop()


# --- The audit log ---


async def test_a_noted_change_leaves_its_entry(world: World) -> None:
    queue, worker = await default(world), await world.worker("w1")
    note = Note(actor="user:ada", action="assignment.change", organization=1)
    for change in (
        Assign(queue.id, worker.worker, 3),
        Reassign(queue.id, worker.worker, weight=4),
        Unassign(queue.id, worker.worker),
    ):
        await world.engine.change_assignment(1, change, note=note)
    found = await entries(world)
    assert {(entry.project, entry.organization, entry.target) for entry in found} == {
        (1, 1, f"queue default ({queue.id}), worker w1 ({worker.worker})")
    }
    assert [said(entry)[2:] for entry in found] == [
        (None, {"weight": 3, "is_active": True}),
        ({"weight": 3}, {"weight": 4}),
        ({"weight": 4, "is_active": True}, None),
    ]
    assert msgspec.structs.asdict(found[0])["actor"] == "user:ada"
