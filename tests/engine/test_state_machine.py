"""R12: SQLite, PostgreSQL and a tiny model step together; every answer and all that can be seen must agree after each step.

    TASKFORGE_MACHINE_EXAMPLES=300 TASKFORGE_MACHINE_STEPS=50   (the short form; the long one is marked `long`)
    TASKFORGE_MACHINE_SHRINK=1   takes up to five minutes more to make a failing run as short as possible
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from taskforge.domain import changes as c
from taskforge.domain import outcome as o
from taskforge.domain.errors import LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.ids import IdMint
from taskforge.domain.job import Inserted, JobStatus, NewJob, Refused
from taskforge.domain.queue import CreateQueue, Queue, QueueSettings, UpdateQueue
from taskforge.domain.worker import NewWorker, Registered, Sample
from taskforge.storage.engine import Claim, Engine
from tests.engine.model import Model, ModelQueue, ModelWorker
from tests.engine.stores import PostgresStore, SqliteStore, Store
from tests.engine.world import ERROR, Clock

LEASE = 15.0
QUEUES: dict[str, tuple[int, dict[str, Any]]] = {
    "dead": (0, {"max_retries": 4}),
    "plain": (
        1,
        {"max_retries": 1, "timeout_seconds": 20, "heartbeat_timeout_seconds": 8, "max_crashes": 2, "retry_jitter": 0},
    ),
    "narrow": (3, {"max_concurrent_jobs": 2, "accept_while_paused": True}),
    "metered": (0, {"rate_limit": 30, "rate_limit_burst": 2, "retry_jitter": 0}),
}
WORKERS: dict[str, dict[str, Any]] = {
    "all": {},
    "picky": {"types": ("a",), "queues": ("dead", "plain", "narrow", "metered")},
}
DEAD = UUID(int=0xDEAD)


class Side:
    """One engine under test, and its own names for what both sides know by the same words."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store, self.engine, self.name = store, engine, type(engine).__name__
        self.queues: dict[str, Queue] = {}
        self.workers: dict[str, Registered] = {}
        self.names: dict[UUID, str] = {}

    async def begin(self) -> None:
        await self.store.probe.empty()
        self.names = {}
        for name, (priority, values) in QUEUES.items():
            wanted = QueueSettings.parse(values)
            if name == "plain":
                wanted = msgspec.structs.replace(wanted, dead_letter_queue_id=self.queues["dead"].id)
            self.queues[name] = await self.engine.change_queue(1, CreateQueue(name=name, priority=priority, settings=wanted))
        for name in WORKERS:
            await self.register(name)

    async def register(self, name: str) -> None:
        self.workers[name] = await self.engine.register(1, NewWorker(name=name, **WORKERS[name]), LEASE)
        self.names |= {self.workers[name].incarnation: name, self.workers[name].worker: name}

    def own(self, transition: o.Transition) -> o.Transition:
        if isinstance(transition, o.DeadLetter):
            return msgspec.structs.replace(transition, queue=self.queues["dead"].id)
        return transition

    async def insert(self, jobs: list[NewJob]) -> list[tuple[object, ...]]:
        answers = []
        for answer in await self.engine.insert(1, jobs):
            if isinstance(answer, Inserted):
                answers.append(("existed" if answer.existed else "inserted", answer.job))
            else:
                answers.append(("refused", type(answer.error).__name__))
        return answers

    async def claim(self, name: str, limit: int) -> object:
        try:
            claimed = await self.engine.claim(Claim(self.workers[name].incarnation, limit))
        except LeaseLost:
            return "LeaseLost"
        return [
            (one.fence, one.queue, one.attempt, one.max_attempts, one.crashes, one.priority, one.payload) for one in claimed
        ]

    async def finish(self, fence: UUID, transition: o.Transition, ran: float | None, *, lapsed: bool) -> object:
        lost = await self.engine.finish([o.Finish(fence, self.own(transition), ran)], lapsed=lapsed)
        return [(one.fence, one.cancel_requested) for one in lost]

    async def change(self, job: UUID, change: c.JobChange) -> tuple[object, ...]:
        [answer] = await self.engine.change([1], [job], change)
        if isinstance(answer, Refused):
            return ("refused", type(answer.error).__name__)
        return ("changed", answer.job, answer.status, answer.note)

    async def state(self, jobs: list[UUID]) -> tuple[dict[UUID, dict[str, object]], dict[str, dict[str, int]]]:
        found, stats = await asyncio.gather(self.engine.get([1], jobs), self.engine.stats([1]))
        seen = {job.id: self.seen(msgspec.structs.asdict(job)) for job in found}
        return seen, {one.queue: {status.value: getattr(one, status.value) for status in JobStatus} for one in stats}

    def seen(self, fields: dict[str, Any]) -> dict[str, object]:
        fields["queue_id"] = None
        fields["worker"] = self.names.get(fields["worker"], fields["worker"])
        for name in ("payload", "result"):
            fields[name] = None if fields[name] is None else bytes(fields[name])
        return fields


def pick(items: list[Any], number: int) -> Any:
    return items[number % len(items)]


NUMBER = st.integers(0, 10_000)
LIVING: list[o.Transition] = [
    o.Retry(0.0, ERROR),
    o.Retry(5.0, ERROR),
    o.Retry(2.0, ERROR, crashed=True),
    o.Snooze(0.0, "later"),
    o.Snooze(4.0, "later"),
    o.HandBack("stopping"),
    o.Skip("not mine"),
    o.DeadLetter(DEAD, ERROR, "no attempts left"),
]
ENDINGS: list[o.Transition] = [o.Succeed(b'{"ok":true}'), o.Succeed(None), o.Fail(ERROR, "no luck"), o.Cancel("not wanted")]
EDITS: list[c.JobChange] = [
    c.EditJob(priority=5),
    c.EditJob(at=0.0),
    c.EditJob(at=6.0),
    c.EditJob(payload=b"[2]"),
    c.EditJob(queue="narrow"),
    c.EditJob(queue="plain", priority=2, at=3.0),
]
VERBS: list[c.JobChange] = [
    c.CancelJob("by hand"),
    c.RetryJob(),
    c.RetryJob(attempts=2),
    c.RedriveJob(),
    c.DeleteJob(),
    c.ErasePayload(),
    c.ExpireJob("by hand"),
    *EDITS,
]


class EnginesAgree(RuleBasedStateMachine):
    runner: ClassVar[asyncio.Runner]
    sides: ClassVar[list[Side]]
    clock: ClassVar[Clock]
    steps: ClassVar[int] = 0

    @initialize()
    def begin(self) -> None:
        self.clock.advance(3600)
        self._each(lambda side: side.begin())
        queues = {}
        for name, (priority, values) in QUEUES.items():
            target = "dead" if name == "plain" else None
            queues[name] = ModelQueue(QueueSettings.parse(values), priority, dead_letters_to=target)
        self.model = Model(self.clock.now(), queues)
        for name, options in WORKERS.items():
            lease = self.model.after(LEASE)
            self.model.workers[name] = ModelWorker(options.get("types"), options.get("queues"), lease)
        self.mint = IdMint(lambda: int(self.clock.now().timestamp() * 1000))
        self.asked: list[NewJob] = []
        self.known: list[UUID] = []
        self.fences: list[UUID] = []

    def _each(self, call: Callable[[Side], Any]) -> list[Any]:
        async def both() -> list[Any]:
            return await asyncio.gather(*(call(side) for side in self.sides))

        return self.runner.run(both())

    def _agree(self, expected: object, call: Callable[[Side], Any]) -> None:
        for side, answer in zip(self.sides, self._each(call), strict=True):
            assert answer == expected, f"{side.name} answered {answer}, the model {expected}"

    def _tick(self, seconds: float = 0.0) -> None:
        """No two steps share an instant, so that every order is decided by time."""
        type(self).steps += 1
        self.model.now = self.clock.advance(seconds + 0.001)

    # --- Steps ---

    @rule(
        queue=st.sampled_from(["plain", "plain", "narrow", "metered", "dead"]),
        count=st.integers(1, 3),
        job_type=st.sampled_from("ab"),
        priority=st.sampled_from([0, 0, 4]),
        at=st.sampled_from([None, None, None, 0.0, 5.0]),
        deadline=st.sampled_from([None, None, 9.0, 30.0]),
        expires=st.sampled_from([None, None, None, 6.0]),
        budget=st.sampled_from([None, None, 1, 3]),
        unique=st.sampled_from([None, None, None, "u", "v"]),
        once=st.sampled_from([None, None, None, "i"]),
        again=NUMBER,
    )
    def insert(self, **drawn: Any) -> None:
        self._tick()
        when = drawn["at"]
        jobs = [
            NewJob(
                id=self.mint(),
                queue=drawn["queue"],
                job_type=drawn["job_type"],
                payload=b"%d" % number,
                priority=drawn["priority"],
                # One microsecond apart, so that staging has one order.
                at=when and self.model.after(when + number * 1e-6),
                deadline=drawn["deadline"],
                expires=drawn["expires"],
                max_attempts=drawn["budget"],
                unique_key=drawn["unique"],
                idempotency_key=drawn["once"],
                idempotency_seconds=20.0,
            )
            for number in range(drawn["count"])
        ]
        if self.asked and drawn["again"] % 10 == 0:
            jobs.append(pick(self.asked, drawn["again"]))  # a caller that never heard the answer asks once more
        self.asked += jobs[: drawn["count"]]
        self.known += [job.id for job in jobs[: drawn["count"]] if job.id is not None]
        self._agree(self.model.insert(jobs), lambda side: side.insert(jobs))

    @rule(worker=st.sampled_from(list(WORKERS)), limit=st.integers(1, 4))
    def claim(self, worker: str, limit: int) -> None:
        self._tick()
        expected = self.model.claim(worker, limit)
        if isinstance(expected, list):
            self.fences += [fence for fence, *_ in expected if isinstance(fence, UUID)]
        self._agree(expected, lambda side: side.claim(worker, limit))

    @precondition(lambda self: self.fences)
    @rule(
        number=NUMBER,
        transition=st.sampled_from(LIVING + ENDINGS),
        ran=st.sampled_from([None, 0.5]),
        recent=st.booleans(),
        lapsed=st.sampled_from([False, False, False, True]),
    )
    def finish(self, number: int, transition: o.Transition, ran: float | None, recent: bool, lapsed: bool) -> None:
        """Of any claim ever given out: most are the job's latest, the others must be lost."""
        self._tick()
        fence = pick(self.fences[-4:] if recent else self.fences, number)
        lost = self.model.finish(fence, transition, lapsed=lapsed)
        self._agree([] if lost is None else [lost], lambda side: side.finish(fence, transition, ran, lapsed=lapsed))

    @precondition(lambda self: self.fences)
    @rule(number=NUMBER, progress=st.sampled_from([None, 0.25, 0.5]), started=st.booleans())
    def beat(self, number: int, progress: float | None, started: bool) -> None:
        self._tick()
        fence = pick(self.fences, number)
        lost = self.model.beat(fence, progress, started)
        news = Beat(fence=fence, progress=progress, started_seconds_ago=0.0 if started else None)

        async def beat(side: Side) -> list[tuple[UUID, bool]]:
            return [(one.fence, one.cancel_requested) for one in await side.engine.beat([news])]

        self._agree([] if lost is None else [lost], beat)

    @precondition(lambda self: self.known)
    @rule(number=NUMBER, change=st.sampled_from(VERBS))
    def change(self, number: int, change: c.JobChange) -> None:
        self._tick()
        job = pick(self.known, number)
        self._agree(self.model.change(job, change), lambda side: side.change(job, change))

    @precondition(lambda self: self.fences)
    @rule(number=NUMBER)
    def cancel_running(self, number: int) -> None:
        from taskforge.domain.ids import job_of

        self._tick()
        job, change = job_of(pick(self.fences, number)), c.CancelJob("by hand")
        self._agree(self.model.change(job, change), lambda side: side.change(job, change))

    @rule(seconds=st.integers(0, 12), limit=st.sampled_from([1, 50]))
    def stage(self, seconds: int, limit: int) -> None:
        self._tick(seconds)
        self._agree(self.model.stage(limit), lambda side: side.engine.stage(limit))

    @rule(seconds=st.integers(0, 20))
    def rescue(self, seconds: int) -> None:
        self._tick(seconds)

        async def look(side: Side) -> dict[UUID, str]:
            return {one.fence: type(one.outcome).__name__ for one in await side.engine.lapsed(100)}

        self._agree(self.model.lapsed(), look)
        for fence in sorted(self.model.lapsed()):
            self._tick()
            job = self.model.running(fence)
            assert job is not None
            by_model = o.Attempt(
                job.attempt, job.max_attempts, job.crashes, job.claims, job.cancel_requested,
                self.model.why_lapsed(job) == "DeadlinePassed",
            )  # fmt: skip
            policy = self.model.queues[job.queue]
            settings = policy.settings
            if policy.dead_letters_to:
                settings = msgspec.structs.replace(settings, dead_letter_queue_id=DEAD)
            transitions: list[o.Transition] = []

            async def decide(side: Side, fence: UUID = fence, transitions: list[o.Transition] = transitions) -> object:
                [one] = [one for one in await side.engine.lapsed(100) if one.fence == fence]
                decided = o.decide(one.attempt, one.outcome, one.policy, 0.5)
                transitions.append(decided)
                await side.finish(fence, decided, None, lapsed=True)
                return one.attempt

            self._agree(by_model, decide)
            chosen = transitions[0]
            assert {type(one) for one in transitions} == {type(chosen)}
            assert not isinstance(chosen, o.DeadLetter) or settings.dead_letter_queue_id == DEAD
            assert self.model.finish(fence, chosen, lapsed=True) is None

    @rule(seconds=st.integers(0, 8))
    def expire(self, seconds: int) -> None:
        self._tick(seconds)
        self._agree(self.model.expire(), lambda side: side.engine.expire(100))

    @rule(queue=st.sampled_from(["plain", "narrow"]), active=st.booleans(), priority=st.sampled_from([None, 0, 5]))
    def update_queue(self, queue: str, active: bool, priority: int | None) -> None:
        self._tick()
        self.model.queues[queue].is_active = active
        if priority is not None:
            self.model.queues[queue].priority = priority

        async def update(side: Side) -> tuple[bool, int]:
            wish = UpdateQueue(queue=side.queues[queue].id, is_active=active, priority=priority)
            changed = await side.engine.change_queue(1, wish)
            return changed.is_active, changed.priority

        self._agree((active, self.model.queues[queue].priority), update)

    @rule(worker=st.sampled_from(list(WORKERS)))
    def renew(self, worker: str) -> None:
        """A worker whose lease is over comes back in a new life once nothing of the old one runs."""
        self._tick()
        known = self.model.workers[worker]
        alive = known.lease_until > self.model.now
        running = [job for job in self.model.jobs.values() if job.status is JobStatus.PROCESSING and job.worker == worker]

        async def renew(side: Side) -> object:
            try:
                renewed = await side.engine.renew(side.workers[worker].incarnation, LEASE, Sample())
            except LeaseLost:
                if not running:
                    await side.register(worker)
                return "LeaseLost"
            return sorted(renewed.cancelled)

        asked = sorted(job.fence for job in running if job.cancel_requested)
        self._agree(asked if alive else "LeaseLost", renew)
        if alive or not running:
            known.lease_until = self.model.after(LEASE)

    @rule()
    def fold(self) -> None:
        self._tick()
        self._each(lambda side: side.engine.fold(1_000))

    # --- What must hold ---

    @invariant()
    def everything_visible_agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        states = self._each(lambda side: side.state(self.known))
        expected = {job.id: job.seen() for job in self.model.jobs.values()}
        for side, (jobs, stats) in zip(self.sides, states, strict=True):
            seen = {job: {name: fields[name] for name in expected.get(job, fields)} for job, fields in jobs.items()}
            assert seen == expected, f"{side.name} and the model differ: " + _difference(seen, expected)
            assert stats == self.model.stats(), side.name
            assert jobs == states[0][0], "the engines differ: " + _difference(jobs, states[0][0])

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return

        async def history(side: Side) -> dict[UUID, list[tuple[object, ...]]]:
            await side.store.probe.check()
            found = {}
            for job in self.model.jobs.values():
                ended = [one for one in await side.engine.executions([1], job.id) if one.finished_at is not None]
                found[job.id] = [(one.id.int & 0xFFFFFF, one.attempt_number, one.status.value, one.reason) for one in ended]
            return found

        self._agree({job.id: job.executions for job in self.model.jobs.values()}, history)


def _difference(one: dict[UUID, dict[str, object]], other: dict[UUID, dict[str, object]]) -> str:
    parts = [f"jobs {set(one) ^ set(other)}"] if set(one) != set(other) else []
    for job in set(one) & set(other):
        parts += [f"{job} {name}: {one[job][name]} ≠ {other[job][name]}" for name in one[job] if one[job][name] != other[job][name]]
    return "; ".join(parts)


@pytest.fixture
def machine(postgres_url: str) -> Iterator[type[EnginesAgree]]:
    folder = Path(tempfile.mkdtemp())

    async def start() -> list[Side]:
        stores: list[Store] = [SqliteStore(folder, durable=False), PostgresStore(postgres_url)]
        return [Side(store, await store.open(EnginesAgree.clock)) for store in stores]

    async def stop() -> None:
        for side in EnginesAgree.sides:
            await side.store.close()

    with asyncio.Runner() as runner:
        EnginesAgree.runner, EnginesAgree.clock = runner, Clock()
        EnginesAgree.sides = runner.run(start())
        yield EnginesAgree
        runner.run(stop())
    shutil.rmtree(folder)


def run(machine: type[EnginesAgree], examples: int, steps: int) -> None:
    machine.steps = 0
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=[phase for phase in Phase if phase is not Phase.shrink or "TASKFORGE_MACHINE_SHRINK" in os.environ],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"R12: 0 divergences in n = {examples} examples, {machine.steps} steps")  # noqa: T201 - the figure is the point


@pytest.mark.timeout(600)
def test_sqlite_postgres_and_the_model_agree(machine: type[EnginesAgree]) -> None:
    examples = int(os.environ.get("TASKFORGE_MACHINE_EXAMPLES", "300"))
    run(machine, examples, int(os.environ.get("TASKFORGE_MACHINE_STEPS", "50")))


@pytest.mark.long
def test_they_agree_for_long(machine: type[EnginesAgree]) -> None:
    run(machine, 20_000, 100)
