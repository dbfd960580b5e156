"""The autoscaler on both engines, with a provider that does what the test says: what it asks for,
whom it drains and stops, and what the next leader makes of what the last one left."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from taskforge.control.autoscaler import Autoscaler
from taskforge.control.leader import Term, steady_seconds
from taskforge.control.providers.factory import FleetOwner
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.assignment import Assign
from taskforge.domain.outcome import ToSucceeded
from taskforge.domain.queue_scaling import QueueScaling, ScalingEntry
from taskforge.domain.scaling import SCALED_BY
from taskforge.domain.scaling_provider import Declaration, LocalDeclaration
from taskforge.domain.worker import Registered, Sample, UpdateWorker
from taskforge.operations.explaining import explain_job
from taskforge.operations.scaling import StoreScaling
from taskforge.storage.records.scaling import ScalingRecords
from tests.support.world import World

NEAR = {"near": LocalDeclaration(app="app:forge", projects=("*",), timeout_seconds=0.2)}


class Machines:
    """A provider as the protocol wants it: told twice, it does it once."""

    def __init__(self) -> None:
        self.wanted = 0
        self.asked: list[tuple[int, int]] = []
        self.stopped: list[str] = []
        self.fails: Exception | None = None
        self.hangs = False
        self.closed = 0

    async def current(self) -> Fleet:
        await self._answer()
        return Fleet(self.wanted)

    async def scale_up(self, count: int, *, above: int) -> None:
        await self._answer()
        self.asked.append((count, above))
        self.wanted = max(self.wanted, above + count)

    async def stop(self, worker: Departing) -> None:
        await self._answer()
        if worker.name not in self.stopped:
            self.stopped.append(worker.name)
            self.wanted -= 1

    async def close(self) -> None:
        self.closed += 1

    async def _answer(self) -> None:
        if self.hangs:
            await asyncio.sleep(3_600)
        if self.fails is not None:
            raise self.fails


class Stage:
    def __init__(self, world: World) -> None:
        self.world = world
        self.machines: dict[str, Machines] = {}
        self.scaling = StoreScaling(world.engine, NEAR)
        self.scaler = self.lead()

    def lead(self) -> Autoscaler:
        self.scaler = Autoscaler(self.world.engine, NEAR, self._make)
        return self.scaler

    def _make(self, declaration: Declaration, owner: FleetOwner) -> Machines:
        return self.at(owner.queue)

    def at(self, queue: str) -> Machines:
        return self.machines.setdefault(queue, Machines())

    async def policy(self, name: str = "mail", **fields: Any) -> QueueScaling:
        queue = await self.world.queue(name)
        usual = {"max_workers": 6, "provider": "near", "target_queue_length": 10}
        return await self.scaling.put(queue, usual | fields, None, None)

    async def look(self, seconds: float = 5.0, term: int = 0) -> None:
        self.world.clock.advance(seconds)
        await self.scaler.look(Term(term, steady_seconds() + 60, steady_seconds))
        await self.scaler.settle()

    async def come(self, count: int, queue: str = "mail", **options: Any) -> list[Registered]:
        mark = {"capabilities": {SCALED_BY: queue}}
        given = {"queues": (queue,), "max_concurrent_jobs": 2, **mark, **options}
        return [await self.world.online_worker(**given) for _ in range(count)]

    async def beat(self, *workers: Registered) -> None:
        for one in workers:
            await self.world.engine.renew(one.incarnation, 1e6, Sample())

    async def news(self, queue: str = "mail") -> list[str]:
        """The oldest first."""
        return [f"{one.news} {one.count}" for one in await self.history(queue)]

    async def history(self, queue: str = "mail") -> list[ScalingEntry]:
        found = await self.scaling.history([self.world.engine.home])
        return [one for one in reversed(found) if one.queue == queue]

    async def state(self, policy: QueueScaling) -> QueueScaling:
        found = await ScalingRecords(self.world.engine).find(policy.queue_id)
        assert found is not None
        return found


@pytest.fixture
def stage(world: World) -> Stage:
    return Stage(world)


async def drain_of(stage: Stage, worker: UUID) -> bool:
    found = await stage.world.engine.workers([stage.world.engine.home])
    return next(one for one in found if one.id == worker).drain_mode


async def test_a_burst_goes_up_once_drains_and_scales_to_zero(stage: Stage, world: World) -> None:
    policy = await stage.policy(target_utilization_percent=100)
    mail = stage.at("mail")
    await stage.look()
    assert (mail.asked, await stage.news()) == ([], [])
    jobs = await world.enqueue_many(40, "mail")
    await stage.look()
    assert (mail.asked, await stage.news()) == ([(4, 0)], ["scale_up 4"])
    [entry] = await stage.history()
    assert (entry.figures and entry.figures.pending, entry.desired) == (40, 4)
    await stage.look()
    assert mail.asked == [(4, 0)]  # on their way
    workers = await stage.come(4)
    claimed = [one for worker in workers for one in await world.claim(worker, 2)]
    await stage.look(60)
    assert (mail.asked, (await stage.state(policy)).state.asked) == ([(4, 0)], ())
    await stage.beat(*workers)
    while claimed:
        for one in claimed:
            await world.finish(one.fence, ToSucceeded())
        claimed = [one for worker in workers for one in await world.claim(worker, 2)]
    assert len({await world.status(job) for job in jobs}) == 1
    await stage.look(130)
    assert await stage.news() == ["scale_up 4", "scale_down 4"]
    assert [await drain_of(stage, one.worker) for one in workers] == [True] * 4
    assert mail.stopped == []  # not in the look that drains them: a claim may be under way
    await stage.look()
    assert len(mail.stopped) == 4
    for one in workers:
        await world.engine.deregister(one.incarnation)
    await stage.look()
    assert (await stage.news())[2:] == ["stopped 1"] * 4
    found = await stage.state(policy)
    assert (found.state.draining, mail.wanted, found.state.error) == ((), 0, None)
    points = await stage.scaling.series(found, world.clock.after(-600), world.clock.after(1), 300)
    assert {one.desired for one in points} >= {0, 4}
    assert max(one.draining for one in points) == 4
    await world.enqueue("mail")
    await stage.look()  # back on the first job, whatever the cooldown says
    assert mail.asked[1:] == [(1, 0)]


async def test_a_worker_that_is_busy_is_drained_last_and_never_stopped_before_it_is_empty(
    stage: Stage, world: World
) -> None:
    await stage.policy(drain_grace_seconds=600)
    mail = stage.at("mail")
    mail.wanted = 2
    busy, idle = await stage.come(2, max_concurrent_jobs=4)
    mine = await world.online_worker("operators-own", queues=("mail",))
    await world.enqueue("mail")
    [claimed] = await world.claim(busy, 1)
    await stage.look(300)
    # one worker would do, and there are three: two may go, but never the operator's own
    assert await stage.news() == ["scale_down 2"]
    assert not await drain_of(stage, mine.worker)
    await stage.look()
    await stage.look(60)
    assert len(mail.stopped) == 1
    await world.engine.deregister(idle.incarnation)
    await world.finish(claimed.fence, ToSucceeded())
    await stage.look()
    assert len(mail.stopped) == 2


async def test_a_drain_that_outlasts_its_grace_ends_all_the_same(
    stage: Stage, world: World
) -> None:
    await stage.policy(drain_grace_seconds=100)
    mail = stage.at("mail")
    mail.wanted = 1
    [busy] = await stage.come(1)
    await world.enqueue_many(1, "mail")
    await world.claim(busy, 1)
    policy = await stage.scaling.policies([world.engine.home])
    await stage.scaling.edit(policy[0], {"max_workers": 0}, None, None)
    await stage.look()
    await stage.look(90)
    assert mail.stopped == []
    await stage.look(20)
    assert len(mail.stopped) == 1


async def test_a_leader_that_dies_between_writing_and_asking_is_followed_by_one_that_asks_once(
    stage: Stage, world: World
) -> None:
    policy = await stage.policy()
    mail = stage.at("mail")
    await world.enqueue_many(40, "mail")
    mail.hangs = True
    world.clock.advance(5)
    await stage.scaler.look(Term(0, steady_seconds() + 60, steady_seconds))
    mail.hangs = False
    await stage.scaler.close()  # it never heard an answer
    stage.lead()
    await stage.look(1)
    assert (mail.asked, await stage.news()) == ([(4, 0)], ["scale_up 4"])
    # the next one dies after it has asked, and before it could note that
    mail.fails = ProviderFailed("cut off")
    await world.enqueue_many(20, "mail")
    await stage.come(4)
    await stage.look(60)
    assert (await stage.news())[-1] == "failed 0"
    mail.fails = None
    asked_before = await stage.state(policy)
    stage.lead()
    await stage.look(60)
    assert mail.asked[-1] == (2, 4)
    assert mail.wanted == 6
    assert asked_before.state.error == "cut off"
    stage.lead()
    await stage.look(1)
    assert mail.asked[-1] == (2, 4)


async def test_a_drain_is_finished_by_the_next_leader(stage: Stage, world: World) -> None:
    await stage.policy()
    mail = stage.at("mail")
    mail.wanted = 1
    [worker] = await stage.come(1)
    await stage.look(300)
    assert await stage.news() == ["scale_down 1"]
    stage.lead()
    await stage.look()
    assert len(mail.stopped) == 1
    stage.lead()
    await stage.look(1)
    assert (len(mail.stopped), mail.wanted) == (1, 0)
    await world.engine.deregister(worker.incarnation)
    stage.lead()
    await stage.look(1)
    assert await stage.news() == ["scale_down 1", "stopped 1"]


async def test_workers_that_never_come_are_missing_and_asked_for_again_within_the_bound(
    stage: Stage, world: World
) -> None:
    policy = await stage.policy(missing_after_seconds=60)
    mail = stage.at("mail")
    await world.enqueue_many(40, "mail")
    await stage.look()
    await stage.come(1)
    await stage.look(50)
    assert mail.asked == [(4, 0)]
    await stage.look(20)
    assert await stage.news() == ["scale_up 4", "missing 3", "scale_up 2"]
    assert mail.asked == [(4, 0), (2, 4)]  # six are the most it may be told to have
    await stage.look(70)
    assert (await stage.state(policy)).state.reason.startswith("the provider has been told")


async def test_a_provider_that_fails_or_hangs_is_told_of_once_and_holds_up_nobody(
    stage: Stage, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskforge.control.autoscaler.ACT_SECONDS", 0.1)
    policies = [await stage.policy(name) for name in ("hung", "denied", "well")]
    stage.at("hung").hangs = True
    stage.at("denied").fails = ProviderFailed("the credentials are wrong", retry_after=40)
    for policy in policies:
        await world.enqueue_many(20, policy.queue)
    await stage.look()
    assert stage.at("well").asked == [(2, 0)]
    assert await stage.news("hung") == ["failed 0"]
    assert (await stage.history("hung"))[-1].reason == "the provider did not answer in time"
    await stage.look(30)
    await stage.look(30)
    [entry] = await stage.history("denied")
    assert entry.reason == "the credentials are wrong"
    assert (await stage.state(policies[1])).state.failures == 2
    stage.at("denied").fails = None
    await stage.look(60)
    assert stage.at("denied").asked == [(2, 0)]
    assert (await stage.state(policies[1])).state.error is None


async def test_new_workers_are_assigned_where_the_queue_has_assignments(
    stage: Stage, world: World
) -> None:
    policy = await stage.policy()
    mine = await world.online_worker("operators-own")
    home = world.engine.home
    await world.engine.change_assignment(home, Assign(policy.queue_id, mine.worker))
    await world.enqueue_many(30, "mail")
    await stage.look()
    workers = await stage.come(2)
    await stage.look()
    assigned = {one.worker for one in await world.engine.assignments([home])}
    assert assigned == {mine.worker, *(one.worker for one in workers)}
    await stage.look()
    assert (await stage.state(policy)).state.workers == 3


async def test_a_policy_that_is_dry_paused_or_without_a_provider_does_nothing(
    stage: Stage, world: World
) -> None:
    dry = await stage.policy("dry", is_dry_run=True)
    await stage.policy("none", provider="none")
    await stage.policy("paused", is_paused=True)
    for queue in ("dry", "none", "paused"):
        await world.enqueue_many(20, queue)
    await stage.look()
    await stage.look()
    assert not any(one.asked for one in stage.machines.values())
    for queue in ("dry", "none"):
        assert await stage.news(queue) == ["would_scale_up 2"]
    assert await stage.news("paused") == []
    assert (await stage.state(dry)).state.desired == 2


async def test_a_worker_that_an_operator_lets_go_on_is_kept(stage: Stage, world: World) -> None:
    await stage.policy()
    [worker] = await stage.come(1)
    await stage.look(300)
    change = UpdateWorker(worker=worker.worker, drain_mode=False)
    await world.engine.change_worker(world.engine.home, change)
    await stage.look()
    assert (await stage.news())[:2] == ["scale_down 1", "kept 1"]
    assert stage.at("mail").stopped == []


async def test_workers_that_went_with_the_last_leaders_machine_are_asked_for_anew(
    stage: Stage, world: World
) -> None:
    policy = await stage.policy()
    mail = stage.at("mail")
    await world.enqueue_many(40, "mail")
    await stage.look()
    mail.wanted = 0  # its processes ended with the node that led
    stage.lead()
    await stage.look()
    assert mail.asked == [(4, 0), (4, 0)]
    assert (await stage.state(policy)).state.missing == 0


async def test_a_job_whose_queue_is_scaled_to_zero_is_told_that_workers_come(
    stage: Stage, world: World
) -> None:
    policy = await stage.policy()

    async def codes() -> list[str]:
        found = await explain_job(world.engine, [world.engine.home], job)
        return [reason.code for reason in found.reasons]

    job = await world.enqueue("mail")
    assert await codes() == ["no_worker", "scaling"]
    await stage.look()
    found = await explain_job(world.engine, [world.engine.home], job)
    assert found.reasons[-1].text == "1 worker is on the way: the queue is scaled up"
    fields: list[tuple[dict[str, Any], list[str]]] = [
        ({"is_paused": True}, ["no_worker", "scaling_paused"]),
        ({"is_paused": False, "is_dry_run": True}, ["no_worker"]),
        ({"is_dry_run": False}, ["no_worker", "scaling"]),
    ]
    for change, said in fields:
        await stage.scaling.edit(await stage.state(policy), change, None, None)
        assert await codes() == said
    stage.at("mail").fails = ProviderFailed("denied")
    await stage.look(130)
    assert await codes() == ["no_worker", "scaling_fails"]
    stage.at("mail").fails = None
    await stage.look(60)
    [worker] = await stage.come(1, max_concurrent_jobs=1)
    await world.claim_one(worker)
    job = await world.enqueue("mail")
    await stage.scaling.edit(await stage.state(policy), {"max_workers": 1}, None, None)
    await stage.look(200)
    assert await codes() == ["busy", "scaling_full"]
