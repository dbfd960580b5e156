"""Slots on both engines: the job, what the slot did and the next slot are one; each slot once,
under the term of a leader."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.control.leader import Term
from taskforge.control.retention import SlotRetention
from taskforge.control.scheduler import Scheduler
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Invalid, Stale
from taskforge.domain.job import JobStatus
from taskforge.domain.query import FIRST
from taskforge.domain.schedule import (
    CatchUp,
    NewSchedule,
    Overlap,
    Schedule,
    ScheduleEdit,
    SlotOutcome,
    Timing,
    job_template,
)
from taskforge.domain.tenancy import Ceiling
from taskforge.domain.term import Deposed, Reign
from taskforge.operations.limits.slot_admission import SlotAdmission
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.storage.records.organizations import Organizations
from taskforge.storage.records.schedules import ScheduleRecords
from tests.support.adhoc_statements import step_of
from tests.support.nodes import a_node
from tests.support.world import World

NOTE = Note("user:ada@example.com", "schedule.create", 1, "127.0.0.1", "r-1")


@pytest.fixture
def schedules(world: World) -> ScheduleRecords:
    return ScheduleRecords(world.engine)


async def lead(engine: Any) -> Term:
    cluster = ClusterRecords(engine)
    seen = await cluster.look(a_node())
    number = await cluster.take(a_node(), seen.reign, 60.0)
    assert number is not None
    return Term(number, time.monotonic() + 60, time.monotonic)


def new(name: str = "nightly", queue: str = "default", **timing: Any) -> NewSchedule:
    made = Timing(**(timing or {"every_seconds": 60.0}))
    return NewSchedule(name=name, timing=made, job=job_template(queue, "work", {"n": 1}))


def scheduler_of(engine: Any, schedules: ScheduleRecords) -> Scheduler:
    return Scheduler(engine, schedules, SlotAdmission.of_engine(engine))


async def run_once(world: World, schedules: ScheduleRecords, term: Term) -> int:
    return await scheduler_of(world.engine, schedules).once(term)


async def test_a_due_slot_makes_one_job_and_says_so(
    world: World, schedules: ScheduleRecords
) -> None:
    made = await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    assert await run_once(world, schedules, term) == 0
    world.clock.advance(61)
    assert await run_once(world, schedules, term) == 1
    assert await run_once(world, schedules, term) == 0
    [slot] = await schedules.slots(made)
    assert (slot.at, slot.outcome) == (made.next_at, SlotOutcome.FIRED)
    assert slot.job is not None
    [job] = await world.engine.get([1], [slot.job])
    assert (job.status, job.job_type, bytes(job.payload or b"")) == (
        JobStatus.PENDING,
        "work",
        b'{"n":1}',
    )
    [after] = await schedules.find([1], made.id)
    assert after.next_at == made.next_at + timedelta(seconds=60)
    assert after.last_job == slot.job


async def test_two_leaders_that_read_the_same_slot_fire_it_once(
    world: World, schedules: ScheduleRecords
) -> None:
    await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    other = ScheduleRecords(await world.another())
    await asyncio.gather(
        run_once(world, schedules, term), scheduler_of(await world.another(), other).once(term)
    )
    assert await world.probe.count("jobs") == 1
    assert await world.probe.count("slots") == 1


async def test_whoever_read_a_slot_that_others_have_left_behind_moves_nothing_back(
    world: World, schedules: ScheduleRecords
) -> None:
    await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    now = await world.engine.now()
    stale = [
        scheduler_of(world.engine, schedules)._firing(one, now, set())
        for one in await schedules.due(now, 10)
    ]
    for _ in range(2):
        assert await run_once(world, schedules, term) == 1
        world.clock.advance(60)
    [before] = await schedules.schedules([1])
    assert [one.stood for one in await world.engine.fire(stale, term.number)] == [False]
    assert await schedules.schedules([1]) == [before]


async def test_a_deposed_leader_writes_nothing(world: World, schedules: ScheduleRecords) -> None:
    await schedules.create(1, new(), NOTE)
    old = await lead(world.engine)
    await lead(world.engine)
    world.clock.advance(61)
    with pytest.raises(Deposed):
        await run_once(world, schedules, old)
    assert await world.probe.count("jobs") == 0
    assert await world.probe.count("slots") == 0


async def test_a_slot_that_was_fired_is_not_fired_again_though_the_schedule_stands_before_it(
    world: World, schedules: ScheduleRecords
) -> None:
    """As after a clock that was set back, and an edit that found the same slot anew."""
    made = await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    await run_once(world, schedules, term)
    [slot] = await schedules.slots(made)
    assert slot.job is not None
    world.clock.advance(-31)
    paused = await schedules.update(
        (await schedules.find([1], made.id))[0], ScheduleEdit(is_paused=True), NOTE
    )
    again = await schedules.update(paused, ScheduleEdit(is_paused=False), NOTE)
    assert again.next_at is not None
    assert slot.at < again.next_at
    world.clock.advance(31)
    await run_once(world, schedules, term)
    assert await world.probe.count("jobs") == 1


async def test_a_slot_that_is_written_is_told_of_once(
    world: World, schedules: ScheduleRecords
) -> None:
    """As after a store that was put back in part: the schedule stands before its last slot."""
    made = await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    await run_once(world, schedules, term)
    [slot] = await schedules.slots(made)
    start = (await world.engine.events(None, 1)).cursor
    back = "update taskforge.schedules set next_at = $1, due_at = $1 where id = $2"
    await world.engine.write([step_of(back, slot.at, made.id)])
    await run_once(world, schedules, term)
    [same] = await schedules.find([1], made.id)
    assert same.next_at is not None
    assert same.next_at > slot.at
    assert await schedules.slots(made) == [slot]
    assert (await world.engine.events(start, 100)).items == []


async def test_a_deleted_job_does_not_bring_its_slot_back(
    world: World, schedules: ScheduleRecords
) -> None:
    made = await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    await run_once(world, schedules, term)
    await world.probe.forget_jobs()
    assert await run_once(world, schedules, term) == 0
    assert len(await schedules.slots(made)) == 1


async def test_an_edit_between_look_and_fire_wins(world: World, schedules: ScheduleRecords) -> None:
    made = await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)

    class Edited(ScheduleRecords):
        async def due(self, now: datetime, limit: int) -> list[Schedule]:
            found = await super().due(now, limit)
            await schedules.update(made, ScheduleEdit(is_paused=True), NOTE)
            return found

    await scheduler_of(world.engine, Edited(world.engine)).once(term)
    assert await world.probe.count("jobs") == 0


async def test_a_queue_that_does_not_take_the_job_is_told_of(
    world: World, schedules: ScheduleRecords
) -> None:
    queue = await world.queue("closed")
    made = await schedules.create(1, new(queue="closed"), NOTE)
    await world.pause(queue)
    term = await lead(world.engine)
    world.clock.advance(61)
    await run_once(world, schedules, term)
    [slot] = await schedules.slots(made)
    assert (slot.outcome, slot.job) == (SlotOutcome.REFUSED, None)
    assert "paused" in (slot.detail or "")
    events = (await world.engine.events(FIRST, 100)).items
    told = [(event.topic, event.jobs) for event in events if event.topic.startswith("schedule.")]
    assert told == [("schedule.created", ()), ("schedule.refused", ())]
    [after] = await schedules.find([1], made.id)
    assert after.next_at is not None


async def test_a_run_that_goes_on_is_cancelled_by_the_next_where_that_is_wanted(
    world: World, schedules: ScheduleRecords
) -> None:
    made = await schedules.create(1, new(every_seconds=60.0, overlap=Overlap.REPLACE), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    await run_once(world, schedules, term)
    world.clock.advance(60)
    await run_once(world, schedules, term)
    newer, older = await schedules.slots(made)
    jobs = {job.id: job.status for job in await world.engine.get([1], [newer.job, older.job])}  # type: ignore[list-item]
    assert jobs == {newer.job: JobStatus.PENDING, older.job: JobStatus.CANCELLED}


@pytest.mark.parametrize(
    ("overlap", "outcomes"),
    [
        (Overlap.SKIP, ["skipped", "fired"]),
        (Overlap.QUEUE, ["fired"]),
        (Overlap.ALLOW, ["fired"] * 2),
    ],
)
async def test_a_run_that_goes_on_meets_the_next(
    world: World, schedules: ScheduleRecords, overlap: Overlap, outcomes: list[str]
) -> None:
    made = await schedules.create(1, new(every_seconds=60.0, overlap=overlap), NOTE)
    term = await lead(world.engine)
    for _ in range(2):
        world.clock.advance(60.5)
        await run_once(world, schedules, term)
    assert [slot.outcome for slot in await schedules.slots(made)] == outcomes


async def test_a_run_by_hand_takes_no_slot_of_the_schedules_own(
    world: World, schedules: ScheduleRecords
) -> None:
    """At the very moment at which one is due."""
    made = await schedules.create(1, new(cron="* * * * *"), None)
    assert made.next_at is not None
    world.clock.advance((made.next_at - await world.engine.now()).total_seconds())
    await schedules.run((await schedules.find([1], made.id))[0], None)
    await run_once(world, schedules, await lead(world.engine))
    assert [slot.manual for slot in await schedules.slots(made)] == [True, False]
    assert await world.probe.count("jobs") == 2


async def test_runs_of_each_project_meet_their_next(
    world: World, schedules: ScheduleRecords
) -> None:
    other = await world.probe.add_project("other")
    await world.queue("default", project=other)
    made = [
        await schedules.create(project, new(every_seconds=60.0, overlap=Overlap.SKIP), None)
        for project in (1, other)
    ]
    term = await lead(world.engine)
    for _ in range(2):
        world.clock.advance(60.5)
        await run_once(world, schedules, term)
    for schedule in made:
        outcomes = [slot.outcome for slot in await schedules.slots(schedule)]
        assert outcomes == ["skipped", "fired"]


async def test_events_tell_of_schedules_and_of_what_they_fire(
    world: World, schedules: ScheduleRecords
) -> None:
    start = (await world.engine.events(None, 1)).cursor
    made = await schedules.create(1, new(), NOTE)
    await schedules.update(made, ScheduleEdit(description="every minute"), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    await run_once(world, schedules, term)
    events = (await world.engine.events(start, 100)).items
    assert [event.topic for event in events] == [
        "schedule.created",
        "schedule.updated",
        "leader.changed",
        "schedule.fired",
    ]
    [slot] = await schedules.slots(made)
    assert events[-1].jobs == (slot.job,)
    assert msgspec.json.decode(events[-1].details or "") == {"schedules": ["nightly"], "slots": 1}


async def test_names_are_unique_and_changes_are_made_to_what_was_read(
    world: World, schedules: ScheduleRecords
) -> None:
    made = await schedules.create(1, new(), NOTE)
    with pytest.raises(Conflict, match="already exists"):
        await schedules.create(1, new(), NOTE)
    other = await schedules.create(1, new("weekly"), NOTE)
    with pytest.raises(Conflict, match="already exists"):
        await schedules.update(other, ScheduleEdit(name="nightly"), NOTE)
    await schedules.update(made, ScheduleEdit(description="x"), NOTE)
    with pytest.raises(Stale):
        await schedules.update(made, ScheduleEdit(description="y"), NOTE)
    with pytest.raises(Stale):
        await schedules.delete(made, NOTE, made.mark)
    await schedules.delete(made, NOTE)
    assert [one.name for one in await schedules.schedules([1])] == ["weekly"]


async def test_a_quota_of_schedules_holds(world: World, schedules: ScheduleRecords) -> None:
    await schedules.create(1, new("one"), NOTE, most=1)
    with pytest.raises(Conflict, match="quota schedules of 1"):
        await schedules.create(1, new("two"), NOTE, most=1)


@pytest.mark.parametrize(
    "timing",
    [
        {"cron": "not cron"},
        {"cron": "0 0 31 2 *"},
        {"cron": "@daily", "zone": "Mars/Base"},
        {"every_seconds": 0.0},
        {"cron": "@daily", "ends_at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"at": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
async def test_bad_input_writes_nothing(
    world: World, schedules: ScheduleRecords, timing: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        await schedules.create(1, new(**timing), NOTE)
    for table in ("schedules", "slots", "audit", "outbox"):
        assert await world.probe.count(table) == (1 if table == "outbox" else 0), table


async def test_one_projects_many_do_not_hold_up_anothers_one(
    world: World, schedules: ScheduleRecords
) -> None:
    other = await world.probe.add_project("other")
    await world.queue("default", project=other)
    for number in range(30):
        await schedules.create(1, new(f"many {number}"), None)
    world.clock.advance(1)
    lone = await schedules.create(other, new("lone"), None)
    world.clock.advance(100)
    due = await schedules.due(world.clock.now(), 10)
    assert lone.id in {one.id for one in due}
    assert len(due) <= 10
    # The others follow, each once, but for what was changed meanwhile.
    known = {one.name for one in due}
    changed = next(one for one in await schedules.schedules([1]) if one.name not in known)
    await schedules.update(changed, ScheduleEdit(is_paused=True), None)
    names = [one.name for one in due]
    for _ in range(3):
        names += [one.name for one in await schedules.due(world.clock.now(), 10)]
    many = {f"many {number}" for number in range(30)} - {changed.name}
    assert sorted(names) == sorted({"lone", *many})


async def test_a_backlog_is_fired_in_order_and_within_its_bound(
    world: World, schedules: ScheduleRecords
) -> None:
    made = await schedules.create(
        1, new(every_seconds=60.0, catch_up=CatchUp.ALL, catch_up_limit=5), NOTE
    )
    term = await lead(world.engine)
    world.clock.advance(3_600)
    await run_once(world, schedules, term)
    outcomes = [slot.outcome for slot in await schedules.slots(made)]
    assert outcomes.count(SlotOutcome.MISSED) == 1
    assert 5 <= outcomes.count(SlotOutcome.FIRED) <= 7


async def test_ten_thousand_schedules_due_in_a_minute_cost_less_than_a_second(
    world: World, schedules: ScheduleRecords
) -> None:
    """CPU of the leader, for the machine is shared; both engines."""
    made = await schedules.create(1, new("0", cron="* * * * *"), None)
    await _copy(world, made, 10_000)
    term = await lead(world.engine)
    world.clock.advance(60)
    began = time.process_time()
    fired = 0
    while count := await run_once(world, schedules, term):
        fired += count
    took = time.process_time() - began
    assert fired == 10_000
    assert await world.probe.count("jobs") == 10_000
    print(f"10,000 schedules fired with {took:.2f} s of CPU")
    assert took < 2.0, f"{took:.2f} s"


async def _copy(world: World, made: Schedule, count: int) -> None:
    statement = """
        insert into taskforge.schedules (id, project, name, description, timing, job, is_paused,
            next_at, due_at, version, created_at, updated_at)
        select $1, project, $2, description, timing, job, is_paused, next_at, due_at, version,
            created_at, updated_at from taskforge.schedules where number = $3"""
    await world.engine.write(
        [
            step_of(statement, UUID(int=1_000_000 + number), str(number), made.number)
            for number in range(1, count)
        ]
    )


async def test_no_term_begins_while_a_leaders_write_is_under_way(world: World) -> None:
    """Terms only rise, and each is taken once."""
    cluster = ClusterRecords(world.engine)
    reign = (await cluster.look(a_node())).reign
    engines = [world.engine, *[await world.another() for _ in range(3)]]
    taken = await asyncio.gather(
        *(ClusterRecords(engine).take(a_node(), reign, 10.0) for engine in engines)
    )
    assert sorted(taken, key=str) == [reign.term + 1, None, None, None]
    await cluster.resign(a_node().id, reign.term)  # of a term that is over: nothing happens
    assert (await cluster.look(a_node())).reign.node is not None
    with pytest.raises(Deposed):
        await cluster.renew(UUID(int=99), reign.term + 1)
    assert Reign(1, 0, None, 1.0) != reign


async def test_what_slots_did_is_pruned_and_they_do_not_come_back(
    world: World, schedules: ScheduleRecords
) -> None:
    made = await schedules.create(1, new(), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    await run_once(world, schedules, term)
    world.clock.advance(30)
    retention = SlotRetention(world.engine.now, schedules, days=1.0)
    assert await retention.prune(term.number) == 0
    world.clock.advance(86_400)
    assert await retention.prune(term.number) == 1
    await run_once(world, schedules, term)
    assert [slot.outcome for slot in await schedules.slots(made)][-1] is not None
    assert all(slot.at > world.clock.after(-86_401) for slot in await schedules.slots(made))
    await lead(world.engine)
    with pytest.raises(Deposed):
        await retention.prune(term.number)


async def test_a_slot_is_refused_where_its_organization_has_no_room_for_its_job(
    world: World, schedules: ScheduleRecords
) -> None:
    """A thousand schedules were a way past every ceiling."""
    first, second = [await schedules.create(1, new(name), NOTE) for name in ("first", "second")]
    organizations = Organizations(world.engine)
    owner = await organizations.get(1)
    await organizations.set_ceiling(owner, Ceiling(enqueue_per_minute=1), NOTE)
    term = await lead(world.engine)
    world.clock.advance(61)
    assert await run_once(world, schedules, term) == 2
    told = [(await schedules.slots(one))[0] for one in (first, second)]
    assert sorted(one.outcome for one in told) == [SlotOutcome.FIRED, SlotOutcome.REFUSED]
    [refused] = [one for one in told if one.outcome is SlotOutcome.REFUSED]
    assert "enqueue_per_minute" in (refused.detail or "")
    assert await world.probe.count("jobs") == 1
    world.clock.advance(60)
    await organizations.set_ceiling(owner, Ceiling(), NOTE)
    assert await run_once(world, schedules, term) == 2
    assert await world.probe.count("jobs") == 3
