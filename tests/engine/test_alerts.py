"""Alert rules on both engines: each kind fires at its threshold and is resolved below it; what is
told, what is silent, and what is left of it all."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from taskforge.control.alerter import HISTORY_DAYS, Alerter
from taskforge.domain.alert import CHECK_SECONDS, AlertRule, AlertRuleEdit, NewAlertRule
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Invalid, NotFound, Stale
from taskforge.domain.outcome import Finish, ToFailed, ToSucceeded
from taskforge.domain.schedule import NewSchedule, Timing, job_template
from taskforge.domain.term import Deposed
from taskforge.operations import alerts as operations
from taskforge.storage.records.alerts import AlertRecords
from taskforge.storage.records.schedules import ScheduleRecords
from tests.support.world import ERROR, World

NOTE = Note("user:ada@example.com", "alert_rule.create", 1, "127.0.0.1", "r-1")


@pytest.fixture
def alerts(world: World) -> AlertRecords:
    return AlertRecords(world.engine)


async def make(world: World, alerts: AlertRecords, kind: str, **options: Any) -> AlertRule:
    new = NewAlertRule(name=options.pop("name", kind), kind=kind, **options)
    return await operations.create_rule(world.engine, alerts, world.engine.home, new)


async def look(world: World, late: Sequence[str] = ()) -> int:
    while await world.engine.fold(100):
        pass
    world.clock.advance(CHECK_SECONDS)
    return await Alerter(world.engine, lambda: late).look(0)


async def said(alerts: AlertRecords, rule: AlertRule) -> AlertRule:
    [found] = await alerts.find([rule.project], rule.id)
    return found


async def news(world: World, alerts: AlertRecords) -> list[str]:
    """The oldest first."""
    found = await alerts.history([world.engine.home])
    return [f"{entry.name} {entry.news}" for entry in reversed(found)]


async def end_jobs(world: World, good: int, bad: int, queue: str = "default") -> None:
    await world.enqueue_many(good + bad, queue)
    claimed = await world.claim(await world.worker(), good + bad)
    await world.engine.finish(
        [
            Finish(one.fence, ToSucceeded() if place < good else ToFailed(ERROR, "no"), 0.1)
            for place, one in enumerate(claimed)
        ]
    )


async def test_failed_jobs_are_counted_over_the_window_and_forgotten_behind_it(
    world: World, alerts: AlertRecords
) -> None:
    rule = await make(world, alerts, "failed_jobs", threshold=3, window_seconds=120)
    await end_jobs(world, 5, 2)
    await look(world)
    assert ((await said(alerts, rule)).is_firing, (await said(alerts, rule)).value) == (False, 2.0)
    await end_jobs(world, 0, 1)
    await look(world)
    fires = await said(alerts, rule)
    assert (fires.is_firing, fires.value, fires.since) == (True, 3.0, world.clock.now())
    assert fires.detail == "3 jobs failed for good in 120 s; the threshold is 3"
    world.clock.advance(300)
    await look(world)
    assert not (await said(alerts, rule)).is_firing
    assert await news(world, alerts) == ["failed_jobs fired", "failed_jobs resolved"]


async def test_a_rate_of_a_few_executions_says_nothing(world: World, alerts: AlertRecords) -> None:
    rule = await make(world, alerts, "failure_rate", queue="default")
    await end_jobs(world, 1, 4)
    await look(world)
    assert (await said(alerts, rule)).value is None
    await end_jobs(world, 4, 1)
    await look(world)
    fires = await said(alerts, rule)
    assert (fires.is_firing, fires.value, fires.queue) == (True, 50.0, "default")


async def test_a_queue_is_named_when_it_is_long_or_old(world: World, alerts: AlertRecords) -> None:
    size = await make(world, alerts, "queue_size", threshold=4)
    age = await make(world, alerts, "oldest_pending", threshold=60)
    await world.queue("mail")
    await world.enqueue_many(3)
    await world.enqueue_many(4, "mail")
    await look(world)
    assert [one.is_firing for one in await alerts.rules([world.engine.home])] == [True, False]
    assert "queue mail" in ((await said(alerts, size)).detail or "")
    world.clock.advance(60)
    await look(world)
    assert (await said(alerts, age)).is_firing
    await world.claim(await world.worker(), 10)
    await look(world)
    assert [one.is_firing for one in await alerts.rules([world.engine.home])] == [False, False]


async def test_one_queue_alone_is_looked_at_under_whatever_name_until_it_is_gone(
    world: World, alerts: AlertRecords
) -> None:
    mail = await world.queue("mail")
    rule = await make(world, alerts, "queue_size", threshold=2, queue="mail")
    await world.enqueue_many(5)
    await look(world)
    assert not (await said(alerts, rule)).is_firing
    await world.enqueue_many(2, "mail")
    await world.update(mail, name="post")
    await look(world)
    fires = await said(alerts, rule)
    assert (fires.is_firing, fires.queue) == (True, "post")
    with pytest.raises(NotFound, match="mail"):
        await make(world, alerts, "queue_size", name="other", queue="mail")


async def test_workers_that_fell_silent_are_down_and_those_that_left_are_not(
    world: World, alerts: AlertRecords
) -> None:
    rule = await make(world, alerts, "workers_down")
    await world.online_worker("gone")
    left = await world.online_worker("left")
    await world.engine.deregister(left.incarnation)
    await look(world)
    assert not (await said(alerts, rule)).is_firing
    world.clock.advance(300)
    await look(world)
    fires = await said(alerts, rule)
    assert fires.is_firing, fires
    assert "worker gone" in (fires.detail or "")
    await world.online_worker("gone")  # its next life
    await look(world)
    assert not (await said(alerts, rule)).is_firing


async def test_a_schedule_that_nobody_fires_and_services_that_are_late(
    world: World, alerts: AlertRecords
) -> None:
    missed = await make(world, alerts, "schedule_missed")
    late = await make(world, alerts, "upkeep_late")
    new = NewSchedule(
        name="nightly",
        timing=Timing(every_seconds=60.0),
        job=job_template("default", "work", {}),
    )
    await ScheduleRecords(world.engine).create(world.engine.home, new, None)
    await look(world)
    assert not (await said(alerts, missed)).is_firing
    world.clock.advance(200)
    await look(world, ["folding"])
    assert "schedule nightly" in ((await said(alerts, missed)).detail or "")
    assert [(await said(alerts, one)).is_firing for one in (missed, late)] == [True, True]


async def test_a_circuit_that_opens_by_itself_is_told_of(
    world: World, alerts: AlertRecords
) -> None:
    rule = await make(world, alerts, "circuit_open")
    await world.queue("mail", circuit_breaker={"least_calls": 4})
    await look(world)
    assert ((await said(alerts, rule)).is_firing, (await said(alerts, rule)).value) == (False, 0.0)
    await end_jobs(world, 0, 6, "mail")
    await look(world)
    assert "1 circuits are open (work)" in ((await said(alerts, rule)).detail or "")
    assert (await said(alerts, rule)).is_firing


async def test_it_is_told_again_while_it_fires_and_to_nobody_while_it_is_silenced(
    world: World, alerts: AlertRecords, caplog: pytest.LogCaptureFixture
) -> None:
    rule = await make(world, alerts, "queue_size", threshold=1, repeat_seconds=600, name="deep")
    await world.enqueue_many(1)
    before = (await world.engine.events(None, 1)).cursor
    await look(world)
    await look(world)  # goes on: nothing to tell
    world.clock.advance(600)
    await look(world)
    silenced = await alerts.silence(await said(alerts, rule), 3_600, NOTE)
    assert silenced.silenced_until == world.clock.after(3_600)
    world.clock.advance(600)
    await look(world)
    await world.claim(await world.worker(), 1)
    await look(world)
    found = await alerts.history([rule.project], rule.id)
    assert [(entry.news, entry.is_silent) for entry in reversed(found)] == [
        ("fired", False),
        ("repeated", False),
        ("repeated", True),
        ("resolved", True),
    ]
    events = (await world.engine.events(before, 100)).items
    told = [event.topic for event in events if event.topic.startswith("alert.")]
    assert told == ["alert.fired", "alert.repeated"]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "alert deep of project 1 fired",
        "alert deep of project 1 repeated",
    ]


async def test_an_edit_meanwhile_goes_before_what_was_judged(
    world: World, alerts: AlertRecords
) -> None:
    rule = await make(world, alerts, "queue_size", threshold=1)
    await world.enqueue_many(1)
    world.clock.advance(CHECK_SECONDS)
    alerter = Alerter(world.engine, list)
    read = await alerts.due(world.clock.now(), 10)
    await alerts.update(rule, AlertRuleEdit(threshold=5), NOTE)
    await alerter.judge(0, rule.project, read, world.clock.now())
    assert (await news(world, alerts), (await said(alerts, rule)).is_firing) == ([], False)
    with pytest.raises(Stale):
        await alerts.update(rule, AlertRuleEdit(threshold=6), NOTE)
    with pytest.raises(Deposed):
        await Alerter(world.engine, list).look(7)


class Faulty:
    """A store whose counts of one project cannot be read."""

    def __init__(self, engine: Any, project: int) -> None:
        self._engine, self._project = engine, project

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def stats(self, projects: Sequence[int]) -> Any:
        if self._project in projects:
            raise ArithmeticError("no such number")
        return await self._engine.stats(projects)


async def test_a_rule_that_cannot_be_looked_at_holds_up_no_other(
    world: World, alerts: AlertRecords, caplog: pytest.LogCaptureFixture
) -> None:
    deep = await make(world, alerts, "queue_size", threshold=1)
    await world.enqueue_many(1)
    await look(world)
    missed = await make(world, alerts, "workers_down")
    world.clock.advance(CHECK_SECONDS)
    faulty: Any = Faulty(world.engine, deep.project)
    assert await Alerter(faulty, list).look(0) == 2
    kept = await said(alerts, deep)
    assert (kept.is_firing, kept.value) == (True, 1.0)
    assert "no such number" in (kept.detail or "")
    assert (await said(alerts, missed)).checked_at == world.clock.now()
    assert await Alerter(faulty, list).look(0) == 0  # it waits for its turn, too
    assert "cannot be looked at" in caplog.text


async def test_a_paused_rule_says_nothing_and_begins_anew(
    world: World, alerts: AlertRecords
) -> None:
    rule = await make(world, alerts, "queue_size", threshold=1)
    await world.enqueue_many(1)
    await look(world)
    paused = await alerts.update(await said(alerts, rule), AlertRuleEdit(is_paused=True), NOTE)
    assert (paused.is_firing, paused.since) == (False, None)
    assert await look(world) == 0
    resumed = await alerts.update(paused, AlertRuleEdit(is_paused=False), NOTE)
    assert await look(world) == 1
    assert (await said(alerts, resumed)).is_firing
    assert await news(world, alerts) == ["queue_size fired", "queue_size fired"]


async def test_names_are_unique_and_what_is_wrong_is_said(
    world: World, alerts: AlertRecords
) -> None:
    rule = await make(world, alerts, "queue_size", name="one")
    other = await make(world, alerts, "queue_size", name="two")
    with pytest.raises(Conflict, match="one"):
        await make(world, alerts, "failed_jobs", name="one")
    with pytest.raises(Conflict, match="one"):
        await alerts.update(other, AlertRuleEdit(name="one"), None)
    for options, field in (
        ({"kind": "queue_sise"}, "kind"),
        ({"kind": "workers_down", "queue": "default"}, "queue"),
        ({"kind": "queue_size", "threshold": 0}, "threshold"),
        ({"kind": "failure_rate", "threshold": 101}, "threshold"),
        ({"kind": "failed_jobs", "window_seconds": 1}, "window_seconds"),
        ({"kind": "failed_jobs", "repeat_seconds": 5}, "repeat_seconds"),
    ):
        with pytest.raises(Invalid) as refused:
            await make(world, alerts, **{"name": "bad", **options})
        assert refused.value.field == field, options
    assert len(await alerts.rules([world.engine.home])) == 2
    await alerts.delete(rule, NOTE)
    assert [one.name for one in await alerts.rules([world.engine.home])] == ["two"]


async def test_history_goes_when_its_time_is_over(world: World, alerts: AlertRecords) -> None:
    rule = await make(world, alerts, "queue_size", threshold=1)
    await world.enqueue_many(1)
    await look(world)
    await alerts.delete(await said(alerts, rule), None)
    assert len(await alerts.history([world.engine.home])) == 1
    world.clock.advance(timedelta(days=HISTORY_DAYS).total_seconds())
    await look(world)
    assert await alerts.history([world.engine.home]) == []
