"""What leaders leave behind in the middle of a look at a scaling policy, and what rounds owe each
other: wishes, terms, sights that are old, pages, policies that changed meanwhile."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from taskforge.control.autoscaler import Autoscaler
from taskforge.control.leader import Term, steady_seconds
from taskforge.control.providers.factory import FleetOwner
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.assignment import Assign
from taskforge.domain.errors import Stale
from taskforge.domain.queue_scaling import (
    HISTORY_DAYS,
    POINT_DAYS,
    AskedFor,
    ScalingState,
)
from taskforge.domain.scaling_provider import Declaration
from taskforge.domain.term import Deposed
from taskforge.domain.worker import Registered
from taskforge.operations.scaling import StoreScaling
from taskforge.operations.scaling_sight import Sights, fill_wishes
from taskforge.storage.records.scaling import Look, ScalingRecords
from tests.control.test_autoscaler import NEAR, Machines, Stage, drain_of
from tests.support.world import Clock, World


class Mortal(Machines):
    """Its leader ends in the middle of a wish: before the provider hears of it, or behind."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = ""
        self.calls: list[str] = []
        self.ignores_stops = False
        self.refuses: set[str] = set()
        self.at_current: Any = None

    async def current(self) -> Fleet:
        self.calls.append("current")
        if self.at_current is not None:
            self.at_current()
        return await super().current()

    async def scale_up(self, count: int, *, above: int) -> None:
        self.calls.append("scale_up")
        if self.ends == "before":
            await asyncio.sleep(3_600)
        await super().scale_up(count, above=above)
        if self.ends == "behind":
            await asyncio.sleep(3_600)

    async def stop(self, worker: Departing) -> None:
        self.calls.append(f"stop {worker.name}")
        if worker.name in self.refuses:
            raise ProviderFailed("not this one")
        if not self.ignores_stops:
            await super().stop(worker)


class MortalStage(Stage):
    def at(self, queue: str) -> Mortal:
        made = self.machines.setdefault(queue, Mortal())
        assert isinstance(made, Mortal)
        return made

    async def die_in_a_look(self) -> None:
        """The leader does not end in order: nothing of the look is heard of again."""
        self.world.clock.advance(5)
        await self.scaler.look(lease())
        for _ in range(500):
            if any("scale_up" in self.at(queue).calls for queue in self.machines):
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await self.scaler.close()
        self.lead()


def lease(number: int = 0) -> Term:
    return Term(number, steady_seconds() + 60, steady_seconds)


@pytest.fixture
def stage(world: World) -> MortalStage:
    return MortalStage(world)


@pytest.mark.parametrize("moment", ["before", "behind"])
async def test_a_wish_is_there_before_it_is_asked_for_and_is_asked_again_above_the_same(
    stage: MortalStage, world: World, moment: str
) -> None:
    policy = await stage.policy()
    mail = stage.at("mail")
    await world.enqueue_many(40, "mail")
    mail.ends = moment
    await stage.die_in_a_look()
    [wish] = (await stage.state(policy)).state.asked
    assert (wish.count, wish.above, wish.is_acknowledged) == (4, 0, False)
    mail.ends = ""
    await stage.look(1)
    assert mail.asked == [(4, 0)] * (1 if moment == "before" else 2)
    assert mail.wanted == 4
    [wish] = (await stage.state(policy)).state.asked
    assert wish.is_acknowledged
    stage.lead()
    await stage.look(1)
    assert (mail.wanted, await stage.news()) == (4, ["scale_up 4"])


async def test_a_leader_whose_term_ends_while_it_looks_asks_for_nothing(
    stage: MortalStage, world: World
) -> None:
    await stage.policy()
    mail = stage.at("mail")
    await world.enqueue_many(40, "mail")
    now = 0.0

    def pass_on() -> None:
        nonlocal now
        now = 100.0

    mail.at_current = pass_on
    world.clock.advance(5)
    await stage.scaler.look(Term(0, 60.0, lambda: now))
    await stage.scaler.settle()
    assert (mail.asked, mail.calls) == ([], ["current"])
    mail.at_current = None
    stage.lead()
    await stage.look(1)
    assert mail.asked == [(4, 0)]


async def test_a_leader_whose_term_ends_while_it_looks_stops_nobody(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy()
    mail = stage.at("mail")
    mail.wanted = 2
    await stage.come(2)
    await stage.look(300)
    assert len((await stage.state(policy)).state.draining) == 2
    readings = iter([0.0])  # the round still trusts its lease, and nothing after it does
    world.clock.advance(5)
    await stage.scaler.look(Term(0, 60.0, lambda: next(readings, 100.0)))
    await stage.scaler.settle()
    assert mail.stopped == []


async def test_a_term_that_is_over_in_the_store_writes_and_asks_nothing(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy()
    await world.enqueue_many(40, "mail")
    world.clock.advance(5)
    with pytest.raises(Deposed):  # from what every round does at its end
        await stage.scaler.look(lease(number=7))
    await stage.scaler.settle()
    assert (stage.at("mail").asked, await stage.news()) == ([], [])
    assert (await stage.state(policy)).state == ScalingState()


async def test_a_worker_is_not_stopped_by_what_was_seen_before_it_was_told(
    stage: MortalStage, world: World
) -> None:
    await stage.policy()
    mail = stage.at("mail")
    mail.wanted = 1
    await stage.come(1)
    await stage.look(300)
    await stage.look(0)  # a sight of the moment at which it was told: it may be of before
    assert mail.stopped == []
    await stage.look(1)
    assert len(mail.stopped) == 1


async def test_the_worker_with_the_least_to_do_is_the_one_that_goes(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy()
    stage.at("mail").wanted = 2
    busy, idle = await stage.come(2, max_concurrent_jobs=4)  # by name, the busy one is first
    await world.enqueue("mail")
    await world.claim_one(busy)
    await stage.look(300)
    assert [one.worker for one in (await stage.state(policy)).state.draining] == [idle.worker]


async def test_workers_that_are_missing_are_told_of_once(stage: MortalStage, world: World) -> None:
    await stage.policy(max_workers=4, missing_after_seconds=60)
    await world.enqueue_many(40, "mail")
    await stage.look()
    for _ in range(3):
        await stage.look(61)
        stage.lead()
    assert await stage.news() == ["scale_up 4", "missing 4"]


async def test_a_worker_that_stays_is_stopped_again_but_not_in_every_look(
    stage: MortalStage, world: World
) -> None:
    await stage.policy()
    mail = stage.at("mail")
    mail.wanted, mail.ignores_stops = 1, True
    [worker] = await stage.come(1)
    await stage.look(300)
    for _ in range(5):
        await stage.look(5)
        await stage.beat(worker)
    assert [one[:4] for one in mail.calls] == ["stop"]
    await stage.look(10)
    assert [one[:4] for one in mail.calls] == ["stop"] * 2


async def test_a_drained_worker_that_crashed_is_told_of_to_the_provider_once(
    stage: MortalStage, world: World
) -> None:
    await stage.policy()
    mail = stage.at("mail")
    mail.wanted = 1
    [worker] = await stage.come(1)
    await world.enqueue("mail")
    await world.claim(worker, 1)
    await stage.scaling.edit(
        (await stage.scaling.policies([world.engine.home]))[0], {"max_workers": 0}, None, None
    )
    await stage.look(5)
    await stage.look(5)
    assert (await drain_of(stage, worker.worker), mail.stopped) == (True, [])
    await world.engine.deregister(worker.incarnation, died=True)
    await stage.look(5)
    assert (len(mail.stopped), (await stage.news())[-1]) == (1, "stopped 1")


async def test_the_last_worker_that_is_assigned_stays_assigned(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy()
    home = world.engine.home
    stage.at("mail").wanted = 2
    workers = await stage.come(2)
    for one in workers:
        await world.engine.change_assignment(home, Assign(policy.queue_id, one.worker))
    await stage.look(300)
    await stage.look()
    for one in workers:
        await world.engine.deregister(one.incarnation)
    await stage.look()
    await stage.look()
    assert (await stage.news())[-1] == "stopped 1"
    assert len(await world.engine.assignments([home])) == 1  # else the queue is everybody's


async def test_only_what_may_be_added_is_asked_for_beside_those_that_drain(
    stage: MortalStage, world: World
) -> None:
    """One is busy and drains for long; all of max_workers may come beside it."""
    policy = await stage.policy(max_workers=2)
    mail = stage.at("mail")
    mail.wanted = 1
    [worker] = await stage.come(1)
    await world.enqueue("mail")
    await world.claim(worker, 1)
    policy = await stage.scaling.edit(await stage.state(policy), {"max_workers": 0}, None, None)
    await stage.look(300)
    assert await stage.news() == ["scale_down 1"]
    await stage.beat(worker)
    await stage.scaling.edit(await stage.state(policy), {"max_workers": 2}, None, None)
    await world.enqueue_many(40, "mail")
    await stage.look(60)
    assert mail.asked == [(2, 1)]


async def test_cooldowns_are_counted_from_what_was_done(stage: MortalStage, world: World) -> None:
    await stage.policy(max_workers=20, scale_up_cooldown_seconds=30)
    mail = stage.at("mail")
    await world.enqueue_many(40, "mail")
    await stage.look()
    await stage.come(4)
    await world.enqueue_many(40, "mail")
    stage.lead()  # the next leader keeps them too
    await stage.look(5)
    assert mail.asked == [(4, 0)]
    await stage.look(30)
    assert mail.asked == [(4, 0), (4, 4)]


async def test_a_step_down_waits_for_the_one_before(stage: MortalStage, world: World) -> None:
    await stage.policy(scale_down_cooldown_seconds=120)
    stage.at("mail").wanted = 3
    await stage.come(2)
    await stage.look(300)
    assert await stage.news() == ["scale_down 2"]
    await stage.come(1)
    stage.lead()
    await stage.look(60)
    assert (await stage.news()).count("scale_down 1") == 0
    await stage.look(61)
    assert (await stage.news()).count("scale_down 1") == 1


async def test_a_provider_that_is_slow_is_asked_by_one_look_at_a_time(
    stage: MortalStage, world: World
) -> None:
    await stage.policy()
    mail = stage.at("mail")
    mail.hangs = True
    await world.enqueue_many(40, "mail")
    for _ in range(3):
        world.clock.advance(5)
        await stage.scaler.look(lease())
        await asyncio.sleep(0.05)
    assert mail.calls == ["current"]
    await stage.scaler.close()
    await asyncio.sleep(0)
    assert mail.closed == 1


async def test_one_that_is_not_stopped_is_enough_for_a_look_and_holds_up_no_other_for_longer(
    stage: MortalStage, world: World
) -> None:
    await stage.policy()
    mail = stage.at("mail")
    mail.wanted = 3
    await stage.come(3)
    await stage.look(300)
    names = [
        one.name for one in (await stage.scaling.policies([world.engine.home]))[0].state.draining
    ]
    mail.refuses = {names[0]}
    await stage.look(5)
    assert mail.calls == [f"stop {names[0]}"]
    await stage.look(5)
    assert mail.calls[1:] == [f"stop {name}" for name in names[1:]]


async def test_rounds_look_at_every_policy_of_every_page(
    stage: MortalStage, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskforge.control.autoscaler.AT_ONCE", 2)
    names = [f"q{place}" for place in range(5)]
    for name in names:
        await stage.policy(name)
        await world.enqueue_many(20, name)
    await stage.look()
    assert {name: stage.at(name).asked for name in names} == {name: [(2, 0)] for name in names}


async def test_a_project_that_is_read_whole_is_kept_for_its_next_pages_and_not_for_long(
    stage: MortalStage, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskforge.operations.scaling_sight.MANY_POLICIES", 1)
    page = {world.engine.home: [await stage.policy()]}
    sights = Sights(world.engine)
    [first] = (await sights.of(page)).values()
    [second] = (await sights.of(page)).values()
    assert second is first
    monkeypatch.setattr("taskforge.operations.scaling_sight.WHOLE_SECONDS", 0.0)
    [third] = (await sights.of(page)).values()
    assert third is not first


async def test_the_provider_of_a_policy_that_is_gone_is_closed(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy()
    await world.enqueue_many(20, "mail")
    await stage.look()
    await stage.scaling.delete(await stage.state(policy), None, None)
    await stage.look()
    assert stage.at("mail").closed == 1


async def test_what_was_asked_of_one_provider_is_not_awaited_of_another(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy()
    await world.enqueue_many(20, "mail")
    await stage.look()
    assert (await stage.state(policy)).state.asked
    await stage.scaling.edit(await stage.state(policy), {"provider": "none"}, None, None)
    assert (await stage.state(policy)).state == ScalingState()


async def test_a_policy_whose_provider_is_another_by_now_asks_that_one(
    stage: MortalStage, world: World
) -> None:
    declared = {name: msgspec.structs.replace(NEAR["near"]) for name in ("near", "far")}
    stage.scaling = StoreScaling(world.engine, declared)
    made: list[Mortal] = []

    def make(declaration: Declaration, owner: FleetOwner) -> Mortal:
        made.append(Mortal())
        return made[-1]

    stage.scaler = Autoscaler(world.engine, declared, make)
    policy = await stage.policy()
    await world.enqueue_many(20, "mail")
    await stage.look()
    await stage.scaling.edit(await stage.state(policy), {"provider": "far"}, None, None)
    await stage.look(40)
    assert [(one.asked, one.closed) for one in made] == [([(2, 0)], 1), ([(2, 0)], 0)]


async def test_a_project_that_may_not_use_a_provider_any_more_gets_nothing_of_it(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy()
    await world.enqueue_many(20, "mail")
    foreign = {"near": msgspec.structs.replace(NEAR["near"], projects=("others",))}
    stage.scaler = Autoscaler(world.engine, foreign, stage._make)
    await stage.look()
    assert stage.machines == {}
    assert "may not use provider 'near' any more" in str((await stage.state(policy)).state.error)


async def test_a_look_that_others_overtook_writes_nothing(stage: MortalStage, world: World) -> None:
    policy = await stage.policy()
    records = ScalingRecords(world.engine)
    state = ScalingState(reason="first")
    await records.save(Look(scaling=policy, state=state, term=0))
    with pytest.raises(Stale):  # another look was faster
        await records.save(Look(scaling=policy, state=ScalingState(reason="late"), term=0))
    read = await stage.state(policy)
    await stage.scaling.edit(read, {"max_workers": 1}, None, None)
    with pytest.raises(Stale):  # the policy says something else by now
        await records.save(Look(scaling=read, state=ScalingState(reason="old"), term=0))
    assert (await stage.state(policy)).state.reason == "first"


async def test_what_is_old_goes_while_the_same_leader_leads_and_the_rest_stays(
    stage: MortalStage, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = await stage.policy(provider="none")
    await world.enqueue_many(20, "mail")
    await stage.look()
    asked_at = world.clock.now()
    records = ScalingRecords(world.engine)

    async def kept() -> tuple[int, int]:
        series = await records.series(policy, asked_at, asked_at + timedelta(seconds=1), 1)
        return len(await stage.history()), len(series)

    monkeypatch.setattr("taskforge.control.autoscaler.PRUNE_SECONDS", 0.0)
    assert await kept() == (1, 1)
    await stage.look(POINT_DAYS * 86_400 - 60)
    assert await kept() == (1, 1)
    await stage.look(120)
    assert await kept() == (1, 0)
    await stage.look((HISTORY_DAYS - POINT_DAYS) * 86_400 - 120)
    assert await kept() == (1, 0)
    await stage.look(120)
    assert await kept() == (0, 0)


async def test_with_leave_to_stop_any_worker_it_is_drained_and_then_stopped(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy(may_stop_any_worker=True)
    mail = stage.at("mail")
    mail.wanted = 1
    worker = await world.online_worker("operators-own", queues=("mail",))
    await stage.look(300)
    assert await stage.news() == ["scale_down 1"]
    await stage.look()
    assert mail.stopped == ["operators-own"]
    assert len((await stage.state(policy)).state.draining) == 1
    await world.engine.deregister(worker.incarnation)
    await stage.look()
    assert await stage.news() == ["scale_down 1", "stopped 1"]


async def test_a_leader_that_dies_before_it_drained_is_followed_by_one_that_drains_the_same(
    stage: MortalStage, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = await stage.policy()
    stage.at("mail").wanted = 4
    await stage.come(4, max_concurrent_jobs=4)
    await world.enqueue_many(20, "mail")
    await stage.scaling.edit(await stage.state(policy), {"max_workers": 3}, None, None)

    async def dies(*_: object) -> None:
        await asyncio.sleep(3_600)

    with monkeypatch.context() as patch:
        patch.setattr("taskforge.control.drainer.Drainer.begin", dies)
        world.clock.advance(5)
        await stage.scaler.look(lease())
        await asyncio.sleep(0.2)
        await stage.scaler.close()
    [chosen] = (await stage.state(policy)).state.draining
    assert not await drain_of(stage, chosen.worker)
    stage.lead()
    await stage.look(1)
    assert [one.worker for one in (await stage.state(policy)).state.draining] == [chosen.worker]
    assert await drain_of(stage, chosen.worker)
    assert await stage.news() == ["scale_down 1"]


async def test_workers_of_operators_fill_no_wish_and_take_no_room_of_the_provider(
    stage: MortalStage, world: World
) -> None:
    policy = await stage.policy(may_stop_any_worker=True)
    mail = stage.at("mail")
    for _ in range(2):
        await world.online_worker(queues=("mail",), max_concurrent_jobs=4)
    await world.enqueue_many(40, "mail")
    await stage.look()
    assert mail.asked == [(2, 0)]
    await stage.look(40)
    assert mail.asked == [(2, 0)]
    await world.online_worker("a-third", queues=("mail",), max_concurrent_jobs=4)
    await stage.look()
    [wish] = (await stage.state(policy)).state.asked
    assert (wish.given_up, (await stage.state(policy)).state.coming) == (0, 2)


# --- Who fills which wish ---


async def _come(world: World, clock: Clock, *waits: float) -> list[Registered]:
    come = []
    for wait in waits:
        clock.advance(wait)
        come.append(await world.online_worker())
    return come


async def test_who_comes_fills_one_wish_the_oldest_first_and_who_was_there_none(
    world: World,
) -> None:
    await _come(world, world.clock, 0, 1)
    first = AskedFor(count=2, at=world.clock.advance(10), above=2, term=1)
    second = AskedFor(count=2, at=world.clock.advance(10), above=4, term=1)

    async def left() -> list[tuple[Any, int]]:
        own = await world.engine.workers([world.engine.home])
        return [(one.at, one.count) for one in fill_wishes((second, first), own)]

    assert await left() == [(first.at, 2), (second.at, 2)]
    await _come(world, world.clock, 1)
    assert await left() == [(first.at, 1), (second.at, 2)]
    await _come(world, world.clock, 1, 1)
    assert await left() == [(second.at, 1)]
    await _come(world, world.clock, 1)
    assert await left() == []
