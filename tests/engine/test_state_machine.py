"""R12: SQLite, PostgreSQL and a tiny model step together; every answer and all that can be seen
must agree.

TASKFORGE_MACHINE_EXAMPLES=300 TASKFORGE_MACHINE_STEPS=50 (the short form; the long one is marked
`long`) TASKFORGE_MACHINE_SHRINK=1 takes up to five minutes more to make a failing run as short as
possible
"""

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from taskforge.domain import changes as c
from taskforge.domain import outcome as o
from taskforge.domain.errors import LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.ids import IdMint, job_of
from taskforge.domain.job import JobStatus, NewJob
from taskforge.domain.queue import QueueSettings, UpdateQueue
from taskforge.domain.worker import Sample
from tests.support.model import Model, ModelQueue, ModelWorker
from tests.support.sides import LEASE, QUEUES, WORKERS, Side
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.world import ERROR, Clock

DEAD = UUID(int=0xDEAD)
WAITING = (JobStatus.PENDING, JobStatus.SCHEDULED)
ACTIONS = [
    *["insert"] * 5,
    *["claim"] * 4,
    *["claim_picky"] * 2,
    *["finish_living"] * 4,
    *["finish_ending"] * 2,
    *["finish_whatever"] * 2,
    *["change"] * 2,
    *["stage"] * 3,
    *["renew"] * 2,
    *["beat"] * 2,
    "edit",
    "change_finished",
    "cancel_running",
    "redrive",
    "rescue",
    "expire",
    "update_queue",
]
LIVING: list[o.Transition] = [
    o.ToRetry(0.0, ERROR),
    o.ToRetry(5.0, ERROR),
    o.ToRetry(2.0, ERROR, crashed=True),
    o.ToSnoozed(0.0, "later"),
    o.ToSnoozed(4.0, "later"),
    o.ToHandBack("stopping"),
    o.ToSkipped("not mine"),
    o.ToMisfit(ERROR, o.ToRetry(3.0, ERROR, misfit=True)),
    o.ToMisfit(ERROR, o.ToFailed(ERROR, "no attempts left")),
    o.ToDeadLetter(DEAD, ERROR, "no attempts left"),
]
ENDINGS: list[o.Transition] = [
    o.ToSucceeded(b'{"ok":true}'),
    o.ToSucceeded(None),
    o.ToFailed(ERROR, "no luck"),
    o.ToCancelled("not wanted"),
]
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
    # what was really done, so that a run that did nothing is found out
    done: ClassVar[Counter[str]] = Counter()

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
            self._register(name, options)
        self.mint = IdMint(lambda: int(self.clock.now().timestamp() * 1000))
        self.taken, self.sound = 0, True
        self.asked: list[NewJob] = []
        self.known: list[UUID] = []
        self.fences: list[UUID] = []

    def _register(self, name: str, options: dict[str, Any]) -> None:
        until, now = self.model.after(LEASE), self.model.now
        self.model.register(
            name,
            ModelWorker(
                options.get("types"),
                options.get("queues"),
                options["max_concurrent_jobs"],
                until,
                LEASE,
                now,
            ),
        )

    def _each(self, call: Callable[[Side], Any]) -> list[Any]:
        async def both() -> list[Any]:
            return await asyncio.gather(*(call(side) for side in self.sides))

        return self.runner.run(both())

    def _agree(self, expected: object, call: Callable[[Side], Any]) -> None:
        for side, answer in zip(self.sides, self._each(call), strict=True):
            assert answer == expected, f"{side.name} answered {answer}, the model {expected}"

    def _tick(self, seconds: float = 0.0) -> None:
        """No two steps share an instant, so that every order is decided by time."""
        self.done["steps"] += 1
        self.model.now = self.clock.advance(seconds + 0.001)

    # --- Steps ---

    @rule(action=st.sampled_from(ACTIONS), seed=st.integers(0, 1 << 32))
    def step(self, action: str, seed: int) -> None:
        """One rule with its own dice: with a rule for each step, runs were mostly of those that
        need no arguments."""
        self.taken += 1
        self.dice = Random(seed * 1_000 + self.taken)
        self.sound = False
        getattr(self, action)()
        self.sound = True

    def insert(self) -> None:
        self._tick()
        dice, count = self.dice, self.dice.randint(1, 3)
        when = dice.choice([None, None, None, 0.0, 5.0])
        common: dict[str, Any] = {
            "queue": dice.choice(
                ["plain", "plain", "narrow", "metered", "dead", "rising", "rising"]
            ),
            "job_type": dice.choice("ab"),
            "priority": dice.choice([0, 0, 4, 8]),
            "deadline": dice.choice([None, None, None, 9.0, 60.0]),
            "expires": dice.choice([None, None, None, 6.0]),
            "max_attempts": dice.choice([None, None, 1, 3]),
            "unique_key": dice.choice([None, None, None, None, "u", "v"]),
            "idempotency_key": dice.choice([None, None, None, None, "i"]),
            "idempotency_seconds": 20.0,
        }
        # One microsecond apart, so that staging has one order.
        times = [
            None if when is None else self.model.after(when + number * 1e-6)
            for number in range(count)
        ]
        jobs = [
            NewJob(id=self.mint(), payload=b"%d" % number, at=at, **common)
            for number, at in enumerate(times)
        ]
        repeated = [dice.choice(self.asked)] if self.asked and dice.random() < 0.1 else []
        self.asked += jobs
        self.known += [job.id for job in jobs if job.id is not None]
        jobs = jobs + repeated  # a caller that never heard the answer asks once more
        answers = self.model.insert(jobs)
        self.done.update(str(answer[0]) for answer in answers)
        self._agree(answers, lambda side: side.insert(jobs))

    def claim(self) -> None:
        self._claim("all")

    def claim_picky(self) -> None:
        self._claim("picky")

    def _claim(self, worker: str) -> None:
        self._tick()
        limit = self.dice.randint(1, 4)
        expected = self.model.claim(worker, limit)
        if isinstance(expected, list):
            self.fences += [fence for fence, *_ in expected if isinstance(fence, UUID)]
            self.done["claimed"] += len(expected)
            self.done["held back"] += self.model.held_back
            self.done["risen"] += self.model.risen
        self._agree(expected, lambda side: side.claim(worker, limit))

    def finish_living(self) -> None:
        self._finish(self._running(), self.dice.choice(LIVING), self.dice.choice([None, 0.5]))

    def finish_ending(self) -> None:
        self._finish(self._running(), self.dice.choice(ENDINGS), self.dice.choice([None, 0.5]))

    def finish_whatever(self) -> None:
        """Any claim ever given out, most of them stale, and rescues of claims that may not have
        lapsed."""
        self._finish(
            self.fences, self.dice.choice(LIVING + ENDINGS), None, lapsed=self.dice.random() < 0.3
        )

    def _running(self) -> list[UUID]:
        return [fence for fence in self.fences if self.model.running(fence) is not None]

    def _finish(
        self,
        fences: list[UUID],
        transition: o.Transition,
        ran: float | None,
        *,
        lapsed: bool = False,
    ) -> None:
        if not fences:
            return self.claim()
        self._tick()
        fence = self.dice.choice(fences)
        lost = self.model.finish(fence, transition, lapsed=lapsed)
        if lost is not None and lapsed:
            lost = (lost[0], False)
        self.done[type(transition).__name__ if lost is None else "lost"] += 1
        self._agree(
            [] if lost is None else [lost],
            lambda side: side.finish(fence, transition, ran, lapsed=lapsed),
        )
        return None

    def beat(self) -> None:
        if not self.fences:
            return self.claim()
        self._tick()
        running = self._running() if self.dice.random() < 0.8 else []
        fence, progress = (
            self.dice.choice(running or self.fences),
            self.dice.choice([None, 0.25, 0.5]),
        )
        ago, alive = self.dice.choice([None, None, 0.0, 0.0, 0.25]), self.dice.random() < 0.6
        # A start that is told twice, in one call or in two, counts once: the answer to the first
        # may have been lost.
        again = ago is not None and self.dice.random() < 0.5
        job = self.model.running(fence)
        self.done["start told again"] += again or (
            ago is not None and job is not None and job.started_at is not None
        )
        lost = self.model.beat(fence, progress, ago, alive)
        told = [Beat(fence=fence, progress=progress, started_seconds_ago=ago, alive=alive)]
        if again:
            told.append(Beat(fence=fence, started_seconds_ago=7.0, alive=False))

        async def beat(side: Side) -> list[tuple[UUID, bool]]:
            return [(one.fence, one.cancel_requested) for one in await side.engine.beat(told)]

        self._agree([] if lost is None else [lost], beat)
        return None

    def change(self) -> None:
        self._change(self.known, self.dice.choice(VERBS))

    def edit(self) -> None:
        waiting = [job.id for job in self.model.jobs.values() if job.status in WAITING]
        self._change(waiting, self.dice.choice(EDITS))

    def change_finished(self) -> None:
        final = [job.id for job in self.model.jobs.values() if job.status.is_final]
        self._change(
            final,
            self.dice.choice(
                [c.RetryJob(), c.RetryJob(attempts=2), c.DeleteJob(), c.ErasePayload()]
            ),
        )

    def cancel_running(self) -> None:
        self._change([job_of(fence) for fence in self._running()], c.CancelJob("by hand"))

    def redrive(self) -> None:
        self._change([job.id for job in self.model.jobs.values() if job.origin], c.RedriveJob())

    def _change(self, jobs: list[UUID], change: c.JobChange) -> None:
        if not jobs:
            return self.insert()
        self._tick()
        job = self.dice.choice(jobs)
        expected = self.model.change(job, change)
        self.done[type(change).__name__ if expected[0] == "changed" else "refused change"] += 1
        self._agree(expected, lambda side: side.change(job, change))
        return None

    def stage(self) -> None:
        self._tick(self.dice.randint(0, 6))
        limit = self.dice.choice([1, 50, 50])
        staged = self.model.stage(limit)
        self.done["staged"] += staged
        self._agree(staged, lambda side: side.engine.stage(limit))
        if self.dice.random() < 0.3:
            self._each(lambda side: side.engine.fold(5))

    def rescue(self) -> None:
        """By those who look in a rhythm or in none. What was a silence to the next of them is
        decided by the one before."""
        if self.dice.random() < 0.3:  # a promise, and a silence that outlasts the leases of then
            self._look(0, 5.0)
            self._look(41, None)
        self._look(self.dice.choice([0, 0, 9, 21, 41]), self.dice.choice([None, None, 5.0, 30.0]))

    def _look(self, seconds: float, rhythm: float | None) -> None:
        self._tick(seconds)
        if not self.model.is_worth_a_look():
            return  # SQLite leaves its file alone then, and PostgreSQL notes the look all the same

        async def look(side: Side) -> dict[UUID, str]:
            return {
                one.fence: type(one.outcome).__name__
                for one in await side.engine.lapsed(100, rhythm=rhythm)
            }

        before = self.model.lapsed()
        found = self.model.look(rhythm)
        self.done["bridged"] += found != before
        self._agree(found, look)
        for fence in sorted(found):
            self._rescue(fence, rhythm)

    def _rescue(self, fence: UUID, rhythm: float | None) -> None:
        self._tick()
        self.model.look(rhythm)
        job = self.model.running(fence)
        assert job is not None
        late = self.model.why_lapsed(job) == "DeadlinePassed"
        expected = o.Attempt(
            job.attempt, job.max_attempts, job.crashes, job.claims, job.cancel_requested, late
        )
        decided: list[o.Transition] = []

        async def decide(side: Side) -> o.Attempt:
            [one] = [
                one for one in await side.engine.lapsed(100, rhythm=rhythm) if one.fence == fence
            ]
            transition = o.decide(one.attempt, one.outcome, one.policy, 0.5)
            decided.append(transition)
            assert await side.finish(fence, transition, None, lapsed=True) == []
            return one.attempt

        self._agree(expected, decide)
        assert len({type(transition) for transition in decided}) == 1
        self.done[f"rescued by {type(decided[0]).__name__}"] += 1
        assert self.model.finish(fence, decided[0], lapsed=True) is None

    def expire(self) -> None:
        # Now and then so long that what waits for a handler that fits has waited long enough.
        self._tick(self.dice.choice([0, 0, 0, 4, 4, 8, 8, 1_900]))
        expired = self.model.expire()
        self.done["expired"] += expired
        self._agree(expired, lambda side: side.engine.expire(100))

    def update_queue(self) -> None:
        self._tick()
        name, priority = self.dice.choice(["plain", "narrow"]), self.dice.choice([None, 0, 5])
        queue = self.model.queues[name]
        queue.is_active = self.dice.random() < 0.7
        queue.priority = queue.priority if priority is None else priority

        async def update(side: Side) -> tuple[bool, int]:
            wish = UpdateQueue(
                queue=side.queues[name].id, is_active=queue.is_active, priority=priority
            )
            changed = await side.engine.change_queue(1, wish)
            return changed.is_active, changed.priority

        self._agree((queue.is_active, queue.priority), update)

    def renew(self) -> None:
        """A worker whose lease is over comes back in a new life once nothing of the old one
        runs."""
        self._tick()
        worker = self.dice.choice(list(WORKERS))
        alive = self.model.renew(worker)
        running = [
            job
            for job in self.model.jobs.values()
            if job.status is JobStatus.PROCESSING and job.worker == worker
        ]

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
        if not alive and not running:
            self._register(worker, WORKERS[worker])

    # --- What must hold ---

    @invariant()
    def everything_visible_agrees(self) -> None:
        """Answers are compared at every step; all that can be seen, which costs as much as the
        step, at every third."""
        if hasattr(self, "model") and self.taken % 3 == 0:
            self._compare()

    def _compare(self) -> None:
        states = self._each(lambda side: side.state(self.known))
        expected = {job.id: job.seen() for job in self.model.jobs.values()}
        for side, (jobs, stats) in zip(self.sides, states, strict=True):
            seen = {
                job: {name: fields[name] for name in expected.get(job, fields)}
                for job, fields in jobs.items()
            }
            assert seen == expected, f"{side.name} and the model differ: " + _difference(
                seen, expected
            )
            assert stats == self.model.stats(), side.name
            assert jobs == states[0][0], "the engines differ: " + _difference(jobs, states[0][0])

    def teardown(self) -> None:
        # a step failed already, and what it says matters more
        if not getattr(self, "sound", False):
            return
        self._compare()

        async def history(side: Side) -> dict[UUID, list[tuple[object, ...]]]:
            await side.store.probe.check()
            found = {}
            for job in self.model.jobs.values():
                ended = [
                    one
                    for one in await side.engine.executions([1], job.id)
                    if one.finished_at is not None
                ]
                found[job.id] = [
                    (one.id.int & 0xFFFFFF, one.attempt_number, one.status.value, one.reason)
                    for one in ended
                ]
            return found

        self._agree({job.id: job.executions for job in self.model.jobs.values()}, history)


def _difference(one: dict[UUID, dict[str, object]], other: dict[UUID, dict[str, object]]) -> str:
    parts = [f"jobs {set(one) ^ set(other)}"] if set(one) != set(other) else []
    for job in set(one) & set(other):
        parts += [
            f"{job} {name}: {one[job][name]} ≠ {other[job][name]}"
            for name in one[job]
            if one[job][name] != other[job][name]
        ]
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


def run(machine: type[EnginesAgree], examples: int, steps: int) -> Counter[str]:
    machine.done.clear()
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=[
                phase
                for phase in Phase
                if phase is not Phase.shrink or "TASKFORGE_MACHINE_SHRINK" in os.environ
            ],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"R12: 0 divergences in n = {examples} examples; done: {dict(machine.done)}")
    return machine.done


@pytest.mark.timeout(600)
def test_sqlite_postgres_and_the_model_agree(machine: type[EnginesAgree]) -> None:
    examples = int(os.environ.get("TASKFORGE_MACHINE_EXAMPLES", "300"))
    done = run(machine, examples, int(os.environ.get("TASKFORGE_MACHINE_STEPS", "50")))
    if examples >= 300:
        kinds = {type(one).__name__ for one in [*LIVING, *ENDINGS, *VERBS]}
        kinds |= {"staged", "expired", "lost", "existed", "bridged", "start told again"}
        kinds |= {"held back", "risen"}
        assert {kind for kind in kinds if not done[kind]} == set()


@pytest.mark.long
def test_they_agree_for_long(machine: type[EnginesAgree]) -> None:
    run(machine, 20_000, 100)
