from uuid import uuid4

import msgspec
import pytest

from taskforge.domain.assignment import Assign
from taskforge.domain.errors import Conflict, Deregistered, Invalid, LeaseLost, NotFound, Stale
from taskforge.domain.outcome import (
    Crashed,
    ToCancelled,
    ToDeadLetter,
    ToFailed,
    ToRetry,
    ToSnoozed,
    ToSucceeded,
    Transition,
)
from taskforge.domain.queue import DeleteQueue
from taskforge.domain.worker import (
    Earlier,
    NewWorker,
    Registered,
    Sample,
    UpdateWorker,
    Worker,
    WorkerStatus,
)
from taskforge.ports.engine import Engine
from tests.support.stores import ALSO_WALLED
from tests.support.world import ERROR, World

pytestmark = ALSO_WALLED


async def only(world: World) -> Worker:
    [worker] = await world.engine.workers([1])
    return worker


async def test_a_worker_comes_back_as_it_presented_itself(world: World) -> None:
    registered = await world.engine.register(
        1,
        NewWorker(
            name="w",
            worker_type="specialized_gpu",
            role="render",
            capabilities={"gpu": True, "nested": {"a": [1, 2.5]}},
            queues=("default", "later"),
            types=("render", "encode"),
            max_concurrent_jobs=4,
            version="1.2.3",
            host="box",
            pid=42,
        ),
        30,
    )
    worker = await only(world)
    assert (worker.id, worker.incarnation, worker.project) == (
        registered.worker,
        registered.incarnation,
        1,
    )
    assert (worker.name, worker.worker_type, worker.role) == ("w", "specialized_gpu", "render")
    assert worker.capabilities == {"gpu": True, "nested": {"a": [1, 2.5]}}
    assert (worker.queues, worker.types) == (("default", "later"), ("render", "encode"))
    assert (worker.max_concurrent_jobs, worker.version, worker.host, worker.pid) == (
        4,
        "1.2.3",
        "box",
        42,
    )
    assert (worker.lease_until, worker.last_heartbeat) == (world.clock.after(30), None)
    assert (worker.registered_at, worker.active_jobs, worker.drain_mode) == (
        world.clock.now(),
        0,
        False,
    )


async def test_none_and_nothing_are_kept_apart(world: World) -> None:
    await world.worker("all")
    await world.worker("none", queues=(), types=())
    by_name = {worker.name: worker for worker in await world.engine.workers([1])}
    assert (by_name["all"].queues, by_name["all"].types) == (None, None)
    assert (by_name["none"].queues, by_name["none"].types) == ((), ())


async def test_offline_until_the_first_renewal_but_free_to_claim(world: World) -> None:
    job = await world.enqueue()
    worker = await world.worker()
    assert (await only(world)).status is WorkerStatus.OFFLINE
    assert await world.claim_jobs(worker) == [job]
    await world.engine.renew(worker.incarnation, 30, Sample(12.5, 1 << 33))
    found = await only(world)
    assert (found.status, found.last_heartbeat, found.active_jobs) == (
        WorkerStatus.ONLINE,
        world.clock.now(),
        1,
    )
    assert (found.cpu_percent, found.memory_bytes) == (12.5, 1 << 33)


async def test_a_worker_grows_unhealthy_in_silence_and_offline_without_a_lease(
    world: World,
) -> None:
    worker = await world.online_worker(lease=15)
    world.clock.advance(10)
    assert (await only(world)).status is WorkerStatus.ONLINE
    world.clock.advance(0.1)
    silent = await only(world)
    assert silent.status is WorkerStatus.UNHEALTHY
    assert (silent.healthy, silent.accepts_jobs) == (True, False)
    await world.engine.renew(worker.incarnation, 15, Sample())
    assert (await only(world)).status is WorkerStatus.ONLINE
    world.clock.advance(15)
    assert (await only(world)).status is WorkerStatus.OFFLINE


async def test_a_drained_worker_is_draining_while_it_is_there_also_when_it_is_idle(
    world: World,
) -> None:
    await world.enqueue()
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    assert not (await world.engine.renew(worker.incarnation, 60, Sample())).drain
    changed = await world.engine.change_worker(
        1, UpdateWorker(worker=worker.worker, drain_mode=True)
    )
    assert (changed.status, changed.drain_mode) == (WorkerStatus.DRAINING, True)
    assert (await world.engine.renew(worker.incarnation, 60, Sample())).drain
    await world.finish(claimed.fence, ToSucceeded())
    assert (await only(world)).status is WorkerStatus.DRAINING
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=False))
    assert (await only(world)).status is WorkerStatus.ONLINE
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=True))
    world.clock.advance(60)
    assert (await only(world)).status is WorkerStatus.OFFLINE


async def test_a_worker_that_stops_is_shown_as_draining_and_its_next_life_is_not(
    world: World,
) -> None:
    await world.enqueue()
    worker = await world.worker("anna")
    claimed = await world.claim_one(worker)
    assert (await world.engine.renew(worker.incarnation, 60, Sample(stopping=True))).drain
    assert ((await only(world)).status, (await only(world)).drain_mode) == (
        WorkerStatus.DRAINING,
        False,
    )
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=False))
    assert (await only(world)).status is WorkerStatus.DRAINING, "nobody can keep it from ending"
    await world.finish(claimed.fence, ToSucceeded())
    await world.engine.deregister(worker.incarnation)
    again = await world.worker("anna")
    assert not (await world.engine.renew(again.incarnation, 60, Sample())).drain
    assert (await only(world)).status is WorkerStatus.ONLINE


async def test_a_lease_is_renewed_from_now(world: World) -> None:
    worker = await world.worker(lease=10)
    for _ in range(5):
        world.clock.advance(9)
        await world.engine.renew(worker.incarnation, 10, Sample())
        assert (await only(world)).lease_until == world.clock.after(10)


async def test_a_lease_that_is_over_cannot_be_renewed(world: World) -> None:
    worker = await world.worker(lease=10)
    world.clock.advance(10)
    with pytest.raises(LeaseLost):
        await world.engine.renew(worker.incarnation, 10, Sample())
    with pytest.raises(LeaseLost):
        await world.engine.renew(uuid4(), 10, Sample())
    world.clock.advance(-1)
    await world.engine.renew(worker.incarnation, 10, Sample())


# --- Identity and incarnations ---


async def test_a_restart_is_the_same_worker_in_a_new_life(world: World) -> None:
    first = await world.worker("w", lease=10)
    world.clock.advance(11)
    second = await world.worker("w", lease=10)
    assert second.worker == first.worker
    assert second.incarnation != first.incarnation
    assert [worker.incarnation for worker in await world.engine.workers([1])] == [
        second.incarnation
    ]
    assert (await world.worker("other")).worker != first.worker


async def test_both_lives_are_listed_while_both_leases_live(world: World) -> None:
    first = await world.worker("w", lease=10)
    world.clock.advance(1)
    second = await world.worker("w", lease=30)
    listed = {worker.incarnation for worker in await world.engine.workers([1])}
    assert listed == {first.incarnation, second.incarnation}
    world.clock.advance(10)
    assert [worker.incarnation for worker in await world.engine.workers([1])] == [
        second.incarnation
    ]


async def test_a_new_life_inherits_no_jobs(world: World) -> None:
    job = await world.enqueue()
    first = await world.worker("w", lease=5)
    claimed = await world.claim_one(first)
    world.clock.advance(6)
    second = await world.worker("w", lease=1e6)
    assert [lapsed.fence for lapsed in await world.engine.lapsed(10)] == [claimed.fence]
    assert await world.claim(second) == []
    assert (await world.job(job)).worker == first.incarnation


async def test_names_belong_to_their_project(world: World) -> None:
    second = await world.probe.add_project("second")
    ours, theirs = await world.worker("w"), await world.worker("w", project=second)
    assert ours.worker != theirs.worker
    assert [worker.id for worker in await world.engine.workers([1])] == [ours.worker]
    assert [worker.id for worker in await world.engine.workers([second])] == [theirs.worker]
    assert {worker.id for worker in await world.engine.workers([1, second])} == {
        ours.worker,
        theirs.worker,
    }
    assert await world.engine.workers([]) == []


# --- Leaving ---


async def test_a_worker_with_jobs_may_not_leave(world: World) -> None:
    await world.enqueue()
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    with pytest.raises(Conflict):
        await world.engine.deregister(worker.incarnation)
    await world.finish(claimed.fence, ToSucceeded())
    await world.engine.deregister(worker.incarnation)
    assert (await only(world)).status is WorkerStatus.OFFLINE
    assert (await only(world)).lease_until == world.clock.now()
    with pytest.raises(Deregistered, match="comes back when someone starts it again"):
        await world.claim(worker)
    with pytest.raises(Deregistered):
        await world.engine.renew(worker.incarnation, 10, Sample())
    assert (await world.worker((await only(world)).name)).worker == worker.worker


async def test_an_unknown_worker_may_leave_unnoticed(world: World) -> None:
    await world.engine.deregister(uuid4())
    worker = await world.worker()
    await world.engine.deregister(worker.incarnation)
    await world.engine.deregister(worker.incarnation)


async def test_a_worker_that_died_leaves_its_jobs_to_others_at_once(
    world: World, other: Engine
) -> None:
    await world.enqueue()
    worker, bystander = await world.worker("dead"), await world.worker("alive")
    claimed = await world.claim_one(worker)
    assert await other.lapsed(10) == []
    start = (await other.events(None, 0)).cursor
    for _ in range(2):
        await other.deregister(worker.incarnation, died=True)
    assert [(event.topic, event.worker) for event in (await other.events(start, 10)).items] == [
        ("worker.left", worker.worker)
    ]
    [lapsed] = await other.lapsed(10)
    assert (lapsed.fence, lapsed.outcome) == (claimed.fence, Crashed("dead"))
    with pytest.raises(LeaseLost) as caught:
        await world.engine.renew(worker.incarnation, 10, Sample())
    assert not isinstance(caught.value, Deregistered), "nobody took it out"
    assert await world.finish(claimed.fence, ToSucceeded()) == [], (
        "what it had reported before it died counts"
    )
    await other.renew(bystander.incarnation, 10, Sample())


async def test_who_registers_is_told_of_others_of_its_machine_that_have_not_left(
    world: World, other: Engine
) -> None:
    second = await world.probe.add_project("second")

    async def register(name: str, pid: int, machine: str = "m", project: int = 1) -> Registered:
        return await other.register(
            project, NewWorker(name=name, pid=pid, machine=machine, pid_started=f"at {pid}"), 60
        )

    first = await register("a", 1)
    assert first.earlier == ()
    last = await other.register(1, NewWorker(name="z", pid=9, machine="m", pid_started="at 9"), 90)
    left, died = await register("b", 2), await register("c", 3)
    assert {one.incarnation for one in died.earlier} == {
        first.incarnation,
        last.incarnation,
        left.incarnation,
    }
    await world.engine.deregister(left.incarnation)
    await world.engine.deregister(died.incarnation, died=True)
    await register("d", 4, machine="elsewhere")
    await register("e", 5, machine="")
    await register("f", 6, project=second)
    again = await register("a", 7)
    assert again.earlier == (
        Earlier(first.incarnation, 1, "at 1"),
        Earlier(last.incarnation, 9, "at 9"),
    ), "soonest over first"
    assert (await register("g", 8, machine="")).earlier == ()
    world.clock.advance(3_600)
    assert first.incarnation in {one.incarnation for one in (await register("h", 10)).earlier}, (
        "also behind its lease"
    )
    world.clock.advance(90_000)
    assert (await register("i", 11)).earlier == ()


async def test_a_death_is_told_of_workers_of_the_own_projects_only(world: World) -> None:
    second = await world.probe.add_project("second")
    theirs = await world.worker(project=second)
    await world.engine.deregister(uuid4(), died=True, projects=[1])
    await world.engine.deregister(theirs.incarnation, died=True, projects=[1])
    await world.engine.renew(theirs.incarnation, 10, Sample())
    await world.engine.deregister(theirs.incarnation, died=True, projects=[1, second])
    with pytest.raises(LeaseLost):
        await world.engine.renew(theirs.incarnation, 10, Sample())


# --- Changing ---


async def test_an_update_changes_what_it_names(world: World, other: Engine) -> None:
    worker = await world.worker("w", capabilities={"gpu": True})
    world.clock.advance(5)
    changed = await other.change_worker(
        1, UpdateWorker(worker=worker.worker, name="renamed", max_concurrent_jobs=99)
    )
    assert (changed.name, changed.max_concurrent_jobs, changed.capabilities) == (
        "renamed",
        99,
        {"gpu": True},
    )
    assert (changed.updated_at, changed.registered_at) == (world.clock.now(), world.clock.after(-5))
    assert await only(world) == changed
    changed = await other.change_worker(1, UpdateWorker(worker=worker.worker, capabilities={}))
    assert (changed.name, changed.capabilities) == ("renamed", {})


async def test_what_operators_want_reaches_a_worker_and_outlasts_its_restarts(
    world: World, other: Engine
) -> None:
    worker = await world.worker("w", max_concurrent_jobs=8)
    assert (await world.engine.renew(worker.incarnation, 60, Sample())).slots == 8
    changed = await other.change_worker(
        1, UpdateWorker(worker=worker.worker, max_concurrent_jobs=2, drain_mode=True)
    )
    assert (changed.max_concurrent_jobs, changed.started_slots) == (2, 8)
    answer = await world.engine.renew(worker.incarnation, 60, Sample())
    assert (answer.slots, answer.drain) == (2, True)
    await world.engine.deregister(worker.incarnation)
    world.clock.advance(1)
    again = await other.register(1, NewWorker(name="w", max_concurrent_jobs=16), 60)
    assert again.worker == worker.worker
    answer = await world.engine.renew(again.incarnation, 60, Sample())
    assert (answer.slots, answer.drain) == (2, True)
    found = await only(world)
    assert (found.max_concurrent_jobs, found.started_slots, found.drain_mode) == (2, 16, True)
    changed = await other.change_worker(
        1, UpdateWorker(worker=worker.worker, as_started=True, drain_mode=False)
    )
    assert (changed.max_concurrent_jobs, changed.drain_mode) == (16, False)
    answer = await world.engine.renew(again.incarnation, 60, Sample())
    assert (answer.slots, answer.drain) == (16, False)


async def test_what_is_wanted_of_a_worker_that_has_left_holds_for_its_next_life(
    world: World,
) -> None:
    first = await world.online_worker("w", max_concurrent_jobs=5)
    await world.engine.deregister(first.incarnation)
    change = UpdateWorker(worker=first.worker, max_concurrent_jobs=3, drain_mode=True)
    changed = await world.engine.change_worker(1, change)
    assert (changed.max_concurrent_jobs, changed.drain_mode) == (3, True)
    again = await world.worker("w", max_concurrent_jobs=5)
    assert again.worker == first.worker
    renewed = await world.engine.renew(again.incarnation, 60, Sample())
    assert (renewed.slots, renewed.drain) == (3, True)


async def test_a_renamed_worker_stays_itself_when_it_is_started_under_its_old_name(
    world: World, other: Engine
) -> None:
    queue, worker = await world.queue("gpu"), await world.worker("live-1")
    renamed = await other.change_worker(1, UpdateWorker(worker=worker.worker, name="gpu-1"))
    assert (renamed.name, renamed.started_as, renamed.id) == ("gpu-1", "live-1", worker.worker)
    await world.engine.change_assignment(1, Assign(queue.id, worker.worker))
    await world.engine.deregister(worker.incarnation)
    again = await world.worker("live-1")
    assert again.worker == worker.worker
    assert [(one.id, one.name) for one in await other.workers([1])] == [(worker.worker, "gpu-1")]
    job = await world.enqueue("gpu")
    assert await world.claim_jobs(again) == [job]
    stranger = await world.worker("gpu-1")
    assert stranger.worker != worker.worker, "whoever is started under the new name is another"
    names = {one.id: one.name for one in await other.workers([1])}
    assert names[worker.worker] == "gpu-1"
    assert names[stranger.worker].startswith("gpu-1-")


async def test_a_name_in_use_cannot_be_given(world: World, other: Engine) -> None:
    first, second, third = [await world.worker(name) for name in ("w1", "w2", "w3")]
    await world.engine.change_worker(1, UpdateWorker(worker=first.worker, name="shown"))
    for name in ("shown", "w1", "w2"):
        with pytest.raises(Conflict, match="in use"):
            await other.change_worker(
                1, UpdateWorker(worker=third.worker, name=name, max_concurrent_jobs=3)
            )
    found = {one.id: (one.name, one.max_concurrent_jobs) for one in await other.workers([1])}
    assert found[third.worker] == ("w3", 1_000), "nothing of a refused change is kept"
    for worker, name in ((first, "w1"), (second, "w2"), (third, "w3")):
        await other.change_worker(1, UpdateWorker(worker=worker.worker, name=name))
    theirs = await world.worker("w1", project=await world.probe.add_project("second"))
    assert theirs.worker not in (first.worker, second.worker, third.worker)


async def test_the_name_of_a_worker_that_left_is_free_and_the_worker_stays_itself(
    world: World,
) -> None:
    first, second = await world.worker("w1"), await world.worker("w2")
    await world.engine.deregister(first.incarnation)
    await world.engine.change_worker(1, UpdateWorker(worker=second.worker, name="w1"))
    assert {one.id for one in await world.engine.workers([1])} == {first.worker, second.worker}
    again = await world.worker("w1")
    assert again.worker == first.worker
    names = {one.id: one.name for one in await world.engine.workers([1])}
    assert names[second.worker] == "w1"
    assert names[first.worker] != "w1"
    assert (await world.worker("w2")).worker == second.worker


async def test_a_change_meant_for_another_mark_is_refused(world: World, other: Engine) -> None:
    made = await world.worker("w", capabilities={"gpu": True, "cores": 4})
    read = await only(world)
    await world.engine.renew(made.incarnation, 60, Sample(50.0, 1_000))
    assert (await only(world)).mark == read.mark, "a heartbeat is no change"
    changed = await other.change_worker(
        1, UpdateWorker(worker=read.id, max_concurrent_jobs=7, expected_mark=read.mark)
    )
    for change in (
        UpdateWorker(worker=read.id, name="x"),
        UpdateWorker(worker=read.id, drain_mode=True),
    ):
        with pytest.raises(Stale):
            await world.engine.change_worker(
                1, msgspec.structs.replace(change, expected_mark=read.mark)
            )
    with pytest.raises(Stale):
        await world.engine.deregister(made.incarnation, expected_mark=read.mark)
    await world.engine.renew(made.incarnation, 60, Sample())
    assert (await only(world)).mark == changed.mark
    await world.engine.deregister(made.incarnation, expected_mark=changed.mark)
    with pytest.raises(LeaseLost):
        await world.engine.renew(made.incarnation, 60, Sample())


async def test_only_the_own_projects_workers_can_be_changed(world: World) -> None:
    second = await world.probe.add_project("second")
    theirs = await world.worker(project=second)
    for target in (theirs.worker, uuid4()):
        with pytest.raises(NotFound) as caught:
            await world.engine.change_worker(1, UpdateWorker(worker=target, drain_mode=True))
        assert caught.value.kind == "worker"
    assert not (await world.engine.workers([second]))[0].drain_mode


@pytest.mark.parametrize(
    ("field", "worker"),
    [
        ("name", NewWorker(name="")),
        ("name", NewWorker(name="n" * 101)),
        ("worker_type", NewWorker(name="w", worker_type="huge")),
        ("max_concurrent_jobs", NewWorker(name="w", max_concurrent_jobs=0)),
        ("capabilities.x", NewWorker(name="w", capabilities={"x": float("nan")})),
        ("queues", NewWorker(name="w", queues="default")),  # type: ignore[arg-type]
        ("queues", NewWorker(name="w", queues="")),  # type: ignore[arg-type]
        ("types", NewWorker(name="w", types="work")),  # type: ignore[arg-type]
        ("types", NewWorker(name="w", types={"work": 1})),  # type: ignore[arg-type]
    ],
)
async def test_a_bad_worker_is_not_registered(world: World, field: str, worker: NewWorker) -> None:
    with pytest.raises(Invalid) as caught:
        await world.engine.register(1, worker, 30)
    assert caught.value.field == field
    assert await world.engine.workers([1]) == []


async def test_registrations_are_told_apart(world: World) -> None:
    registered: list[Registered] = [await world.worker() for _ in range(5)]
    assert len({one.incarnation for one in registered} | {one.worker for one in registered}) == 10


# --- Totals ---


async def test_totals_count_the_executions_of_all_lives_of_a_worker(world: World) -> None:
    dead = await world.queue("dead")
    await world.enqueue_many(9)
    first = await world.worker("w")
    endings: list[Transition] = [
        ToSucceeded(),
        ToSucceeded(),
        ToFailed(ERROR, "no"),
        ToRetry(500.0, ERROR),
        ToDeadLetter(dead.id, ERROR, "x"),
        ToCancelled("no"),
        ToSnoozed(500.0, "later"),
    ]
    for ending in endings:
        await world.finish((await world.claim_one(first)).fence, ending, ran=1.0)
    again, idle, busy = (
        await world.worker("w"),
        await world.worker("idle"),
        await world.worker("busy"),
    )
    await world.finish((await world.claim_one(again)).fence, ToSucceeded())
    await world.finish((await world.claim_one(busy)).fence, ToFailed(ERROR, "no"))
    expected = {first.worker: (3, 3), busy.worker: (0, 1)}
    for _ in range(4):
        totals = await world.engine.worker_totals([1])
        assert {one.worker: (one.completed, one.failed) for one in totals} == expected
        await world.engine.fold(3)
    assert await world.probe.count("rollup_deltas") == 0
    assert idle.worker not in expected
    second = await world.probe.add_project("second")
    assert await world.engine.worker_totals([second]) == await world.engine.worker_totals([]) == []


async def test_totals_outlive_the_lives_they_tell_of(world: World) -> None:
    await world.enqueue()
    worker = await world.worker("w", lease=10)
    await world.finish((await world.claim_one(worker)).fence, ToSucceeded())
    await world.engine.fold(100)
    world.clock.advance(30 * 86_400)
    await world.engine.prune(1, 100)
    [total] = await world.engine.worker_totals([1])
    assert (total.worker, total.completed, total.failed) == (worker.worker, 1, 0)


async def test_lives_that_are_long_over_are_forgotten_but_not_who_is_assigned(world: World) -> None:
    queue, dropped = await world.queue("gpu"), await world.queue("dropped")
    lives = [
        await world.worker(name, lease=10) for _ in range(3) for name in ("weekly", "gone", "idle")
    ]
    weekly, gone, idle = lives[:3]
    await world.engine.change_assignment(1, Assign(queue.id, weekly.worker))
    await world.engine.change_assignment(1, Assign(dropped.id, gone.worker))
    await world.engine.change_queue(1, DeleteQueue(queue=dropped.id))
    world.clock.advance(6 * 86_400)
    await world.engine.prune(30, 100)
    assert await world.probe.count("workers") == 9
    world.clock.advance(2 * 86_400)
    await world.engine.prune(30, 100)
    assert await world.probe.count("workers") == 1
    assert [worker.name for worker in await world.engine.workers([1])] == ["weekly"]
    assert (await world.worker("idle")).worker != idle.worker
    again = await world.worker("weekly")
    assert again.worker == weekly.worker
    job = await world.enqueue("gpu")
    assert await world.claim_jobs(again) == [job]


async def test_a_life_stays_while_it_holds_jobs_or_is_not_counted_yet(world: World) -> None:
    await world.running()
    _, fence = await world.running()
    await world.finish(fence, ToSucceeded())
    world.clock.advance(30 * 86_400)
    await world.engine.prune(60, 100)
    assert await world.probe.count("workers") == 2
    await world.engine.fold(100)
    await world.engine.prune(60, 100)
    assert await world.probe.count("workers") == 1
    assert [total.completed for total in await world.engine.worker_totals([1])] == [1]
    assert len(await world.engine.lapsed(10)) == 1
