"""A process that stands for election and does nothing else: it fires schedules while it leads, and
writes all the time, without asking first whether its term is over."""

import asyncio
import contextlib
import os
import sys
from uuid import UUID

import msgspec

from taskforge.control import scheduler
from taskforge.control.leader import Leader, LeaderService, Term
from taskforge.control.membership import Membership, this_node
from taskforge.control.webhook_gatherer import WebhookGatherer
from taskforge.control.webhook_sender import WebhookSender
from taskforge.domain.errors import StoreUnavailable, TaskForgeError
from taskforge.domain.firing import Fired, Firing
from taskforge.domain.node import NodeRole
from taskforge.domain.query import CLUSTER
from taskforge.domain.term import Deposed
from taskforge.operations.limits.slot_admission import SlotAdmission
from taskforge.ports.engine import Engine
from taskforge.ports.records import Step
from taskforge.services import ServiceHealth, running
from taskforge.settings import Settings
from taskforge.storage.records.cluster import ClusterRecords, held
from taskforge.storage.records.schedules import ScheduleRecords
from taskforge.wiring import make_outgoing_door, make_store
from tests.support.adhoc_statements import step_of

TWIN = os.environ.get("CHAOS_TWIN", "")
_SLOT = """
insert into taskforge.slots (schedule, at, project, fired_at, outcome, job, manual)
values ($1, $2, 1, $4, 'fired', $3, false) on conflict (schedule, at) do nothing"""
_MOVE = "update taskforge.schedules set next_at = $2, due_at = $3 where number = $1"


class Writer:
    """Its writes are in the outbox, in the order in which they were committed. It asks nobody
    whether it may: the term alone must stop it."""

    name = "writer"

    def __init__(self, engine: Engine, node: UUID) -> None:
        self._engine = engine
        self._node = node

    async def run(self, term: Term) -> None:
        self._writing = asyncio.create_task(self._write(term))  # and goes on when this is cancelled
        await asyncio.Event().wait()

    def health(self) -> list[ServiceHealth]:
        return []

    async def _write(self, term: Term) -> None:
        details = msgspec.json.encode({"term": term.number, "node": self._node}).decode()
        while True:
            with contextlib.suppress(StoreUnavailable, Deposed):
                step = Step(
                    "add_event", (CLUSTER, "test.written", details, await self._engine.now())
                )
                await self._engine.write(
                    [step] if TWIN == "no fence" else [held(term.number), step]
                )
            await asyncio.sleep(0.02)


class Unfenced:
    """The twin of a store's `fire`: jobs first, then what became of the slots."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.now = engine.now
        self.get = engine.get

    async def fire(self, firings: list[Firing], term: int | None) -> list[Fired]:
        for firing in firings:
            await self._engine.insert(
                firing.project, [msgspec.structs.replace(job, id=None) for job in firing.jobs]
            )
        steps = []
        for firing in firings:
            now = await self._engine.now()
            steps += [
                step_of(_SLOT, firing.schedule, slot, job.id, now)
                for slot, job in zip(firing.plan.fires, firing.jobs, strict=True)
            ]
            steps.append(step_of(_MOVE, firing.schedule, firing.plan.next_at, firing.plan.due_at))
        await self._engine.write(steps)
        return []


async def main() -> None:
    settings = Settings.load({})
    engine = make_store(settings)
    await engine.open()
    cluster = ClusterRecords(engine)
    node = this_node([NodeRole.SERVER], None, settings.leader_seconds)
    unfenced = TWIN == "unfenced slots"
    store: scheduler.FiringStore = Unfenced(engine) if unfenced else engine  # type: ignore[assignment]
    services: list[LeaderService] = [
        scheduler.Scheduler(store, ScheduleRecords(engine), SlotAdmission.of_engine(engine))
    ]
    if "webhooks" in sys.argv:
        services = [
            WebhookGatherer(engine, seconds=0.2),
            WebhookSender(engine, lambda: make_outgoing_door(settings), seconds=0.2),
        ]
    if "writer" in sys.argv:
        services.append(Writer(engine, node.id))
    if unfenced:
        for service in services:  # everybody leads
            term = Term(1, float("inf"), lambda: 0.0)
            await asyncio.gather(*(_forever(service, term) for _ in range(2)))
    leader = Leader(cluster, node, services, lease_seconds=settings.leader_seconds)
    async with running([Membership(cluster, node), leader]) as tasks:
        await asyncio.wait(tasks)


async def _forever(service: LeaderService, term: Term) -> None:
    while True:
        with contextlib.suppress(TaskForgeError):
            await service.run(term)


if __name__ == "__main__":
    asyncio.run(main())
