"""One engine under test in the state machine, and its own names for what all sides know by the same
words."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import changes as c
from taskforge.domain import outcome as o
from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost
from taskforge.domain.job import Inserted, JobStatus, NewJob, Refused
from taskforge.domain.queue import CreateQueue, Queue, QueueSettings, UpdateQueue
from taskforge.domain.worker import NewWorker, Registered
from taskforge.ports.engine import Engine
from tests.support.stores import Store

LEASE = 40.0
QUEUES: dict[str, tuple[int, dict[str, Any]]] = {
    "dead": (0, {"max_retries": 4}),
    "plain": (
        1,
        {
            "max_retries": 1,
            "timeout_seconds": 20,
            "heartbeat_timeout_seconds": 8,
            "max_crashes": 2,
            "retry_jitter": 0,
        },
    ),
    "narrow": (3, {"max_concurrent_jobs": 2, "accept_while_paused": True}),
    "metered": (0, {"rate_limit": 30, "rate_limit_burst": 2, "retry_jitter": 0}),
    # No sum of steps, each of whole milliseconds, is a multiple of these.
    "rising": (
        0,
        {
            "age_boost": 2.00037,
            "priority_pacing": {
                "low_seconds": 9.00031,
                "medium_seconds": 4.00031,
                "high_seconds": 4.00031,
            },
        },
    ),
}
WORKERS: dict[str, dict[str, Any]] = {
    "all": {"max_concurrent_jobs": 4},
    "picky": {
        "types": ("a",),
        "queues": ("dead", "plain", "narrow", "metered", "rising"),
        "max_concurrent_jobs": 2,
    },
}


class Side:
    """One engine under test, and its own names for what both sides know by the same words."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store, self.engine, self.name = store, engine, type(engine).__name__
        self.queues: dict[str, Queue] = {}
        self.workers: dict[str, Registered] = {}
        self.names: dict[UUID, str] = {}

    async def begin(self) -> None:
        await self.store.probe.forget_jobs()
        for name, (priority, values) in QUEUES.items():
            if name in self.queues:
                wish = UpdateQueue(queue=self.queues[name].id, priority=priority, is_active=True)
                self.queues[name] = await self.engine.change_queue(1, wish)
                continue
            wanted = QueueSettings.parse(values)
            if name == "plain":
                wanted = msgspec.structs.replace(
                    wanted, dead_letter_queue_id=self.queues["dead"].id
                )
            self.queues[name] = await self.engine.change_queue(
                1, CreateQueue(name=name, priority=priority, settings=wanted)
            )
        self.names = {}
        for name in WORKERS:
            await self.register(name)
        await self.engine.lapsed(1)

    async def register(self, name: str) -> None:
        self.workers[name] = await self.engine.register(
            1, NewWorker(name=name, **WORKERS[name]), LEASE
        )
        self.names |= {self.workers[name].incarnation: name, self.workers[name].worker: name}

    def own(self, transition: o.Transition) -> o.Transition:
        if isinstance(transition, o.ToDeadLetter):
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
            (
                one.fence,
                one.queue,
                one.attempt,
                one.max_attempts,
                one.crashes,
                one.priority,
                one.payload,
            )
            for one in claimed
        ]

    async def finish(
        self, fence: UUID, transition: o.Transition, ran: float | None, *, lapsed: bool
    ) -> object:
        lost = await self.engine.finish([o.Finish(fence, self.own(transition), ran)], lapsed=lapsed)
        # Whether a rescue was refused because the claim lives or because of a cancel request is the
        # same to the rescuer.
        return [(one.fence, one.cancel_requested and not lapsed) for one in lost]

    async def change(self, job: UUID, change: c.JobChange) -> tuple[object, ...]:
        [answer] = await self.engine.change([1], [job], change)
        if isinstance(answer, Refused):
            return ("refused", type(answer.error).__name__)
        return ("changed", answer.job, answer.status, answer.note)

    async def state(
        self, jobs: list[UUID]
    ) -> tuple[dict[UUID, dict[str, object]], dict[str, dict[str, int]]]:
        found, stats = await asyncio.gather(self.engine.get([1], jobs), self.engine.stats([1]))
        seen = {job.id: self.seen(msgspec.structs.asdict(job)) for job in found}
        return seen, {
            one.queue: {status.value: getattr(one, status.value) for status in JobStatus}
            for one in stats
        }

    def seen(self, fields: dict[str, Any]) -> dict[str, object]:
        fields["queue_id"] = None
        # By its turn, which is the moment with the job's place in its batch behind.
        fields["updated_at"] = fields["updated_at"].replace(
            microsecond=fields["updated_at"].microsecond // 1_000 * 1_000
        )
        for name in ("worker", "worker_id"):
            fields[name] = self.names.get(fields[name], fields[name])
        for name in ("payload", "result"):
            fields[name] = None if fields[name] is None else bytes(fields[name])
        return fields
