"""A node is a process that works, serves, or both. This module says which services it runs, in
which order they start, and in which they end.

1. the upkeep of the store: in every process that reaches the store itself;
2. what a server does beside answering: `taskforge server`, `taskforge up`;
3. the node's place in the cluster, and what needs a leader: in every process that reaches the
   store itself, the latter at rest in all of them but one; then the REST API;
4. workers: `taskforge worker`, `taskforge up`, `forge.work()`, `WorkerManager`.

They start in this order and end in the other: workers finish their jobs while the store is still
looked after, and the API answers until they have. A node ends when its workers have ended, or its
API where it has no workers. If one of its parts fails, all stop in order, and that is raised.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from taskforge.control.alerter import Alerter
from taskforge.control.autoscaler import Autoscaler, MakeProvider
from taskforge.control.byte_counter import ByteCounter
from taskforge.control.dispatcher import Dispatcher
from taskforge.control.leader import Leader, LeaderService
from taskforge.control.membership import Membership, RollCall, this_node
from taskforge.control.providers.factory import FleetOwner, make_provider
from taskforge.control.providers.local_processes import LocalProcesses, ProcessOrder
from taskforge.control.providers.provider import Provider
from taskforge.control.reporter import ProjectReporter
from taskforge.control.retention import PartitionKeeper, SlotRetention
from taskforge.control.sampler import Sampler
from taskforge.control.scheduler import Scheduler
from taskforge.control.webhook_gatherer import WebhookGatherer
from taskforge.control.webhook_sender import WebhookSender
from taskforge.domain.node import NewNode, NodeRole
from taskforge.domain.scaling_provider import Declaration
from taskforge.operations.limits.slot_admission import SlotAdmission
from taskforge.operations.store_watch import StoreWatch
from taskforge.operations.upkeep import PRUNE_SECONDS, Upkeep
from taskforge.ports.engine import AnyEngine, Engine, is_store
from taskforge.services import Lasting, Periodic, Service, ServiceHealth, end_tasks, running
from taskforge.settings import Settings
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.storage.records.schedules import ScheduleRecords
from taskforge.storage.records.stored_bytes import StoredByteRecords
from taskforge.wiring import Made, make_outgoing_door, with_absolute_path
from taskforge.worker.garbage import collect_less_often
from taskforge.worker.processes.supervision import SupervisedProcess
from taskforge.worker.worker import LiveWorker

if TYPE_CHECKING:
    from taskforge.api.server import ApiServer
    from taskforge.operations.platform import Platform

logger = logging.getLogger("taskforge.node")
LATE_LOOK_SECONDS = 5.0


def make_node(
    engine: AnyEngine,
    settings: Settings,
    *,
    workers: Sequence[LiveWorker] = (),
    server: Made | None = None,
    beside: Iterable[Service] = (),
    prune_seconds: float = PRUNE_SECONDS,
    on_failure: Callable[[str, BaseException], None] | None = None,
) -> "Node":
    """The node of this process, not yet running. `beside` are services of its caller's own."""
    services: list[Service] = []
    if (upkeep := make_upkeep(engine, settings, prune_seconds)) is not None:
        services.append(upkeep)
    if server is not None:
        services += server_services(server.platform)
    if is_store(engine):
        roles = {NodeRole.SERVER} if server is not None else set()
        roles |= {NodeRole.WORKER} if workers else set()
        address = None if server is None else server.server.address
        node = this_node(roles, address, settings.leader_seconds)
        services.append(StoreWatch(engine, settings.retention_days))
        services += cluster_services(engine, settings, node, services)
        late = LateWatch(services)
        if server is not None:
            server.platform.late = late.names
        services.append(Periodic("watching what is late", late.look, seconds=LATE_LOOK_SECONDS))
    return Node(
        [*services, *beside],
        server=None if server is None else server.server,
        workers=workers,
        on_failure=on_failure,
    )


def make_upkeep(
    engine: AnyEngine, settings: Settings, prune_seconds: float = PRUNE_SECONDS
) -> Upkeep | None:
    """What the store needs done now and then; None behind a server, which does it."""
    if not is_store(engine):
        return None
    return Upkeep(
        engine,
        interval=settings.upkeep_seconds,
        prune_interval=prune_seconds,
        retention_days=settings.retention_days,
    )


def cluster_services(
    engine: Engine, settings: Settings, node: NewNode, told_of: Sequence[Service]
) -> list[Service]:
    """That this process is there, with how those services fare; and its candidacy, with what one
    process of all runs at a time, and how that fares."""
    cluster, schedules = ClusterRecords(engine), ScheduleRecords(engine)
    told = list(told_of)

    def tell() -> bytes:
        return msgspec.json.encode([health for one in told for health in one.health()])

    while_leading: list[LeaderService] = [
        Dispatcher(engine),
        Scheduler(engine, schedules, SlotAdmission.of_engine(engine)),
        PartitionKeeper(engine, settings.retention_days),
        SlotRetention(engine.now, schedules, settings.retention_days),
        RollCall(cluster, settings.leader_seconds),
        Sampler(engine),
        ByteCounter(StoredByteRecords(engine)),
        Alerter(engine, lambda: list(late_services(told))),
        WebhookGatherer(engine),
        WebhookSender(engine, lambda: make_outgoing_door(settings)),
        ProjectReporter(engine, settings.report_seconds),
        Autoscaler(engine, settings.providers, provider_maker(settings)),
    ]
    leader = Leader(cluster, node, while_leading, lease_seconds=settings.leader_seconds)
    told.append(leader)
    return [Membership(cluster, node, tell), leader]


def provider_maker(settings: Settings) -> MakeProvider:
    """Makes the providers of scaling policies; how a worker process starts, they are told."""

    async def start(order: ProcessOrder) -> SupervisedProcess:
        words = (f"--name={order.name}", f"--queues={order.queue}", f"--slots={order.slots}")
        store = with_absolute_path(settings)
        return await SupervisedProcess.start(
            [sys.executable, "-m", "taskforge.cli", "worker", order.app, *words],
            was_ready=True,
            number=0,
            environment={
                "TASKFORGE_URL": store.url,
                "TASKFORGE_SCHEMA": store.schema,
                **order.environment,
            },
            directory=order.directory,
        )

    def make(declaration: Declaration, owner: FleetOwner) -> Provider:
        return make_provider(
            declaration,
            owner,
            lambda local, fleet: LocalProcesses(local, fleet, start),
            opened=settings.opened,
        )

    return make


def server_services(platform: "Platform") -> list[Service]:
    """The reader of events, the claims that wait, the audit log's seals, the keys' last use."""
    return [
        Lasting("feed", platform.feed.run),
        Lasting("waiting claims", platform.desk.claims.run),
        platform.upkeep,
    ]


def late_services(services: Iterable[Service]) -> dict[str, str | None]:
    """Those that should have run by now, with what they met last."""
    return {one.name: one.error for service in services for one in service.health() if one.is_late}


class LateWatch:
    """Warns of services that are late, once, and tells when they are not any more."""

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = tuple(services)
        self._told: set[str] = set()

    def names(self) -> list[str]:
        return list(late_services(self._services))

    async def look(self) -> None:
        errors = late_services(self._services)
        late = set(errors)
        for name in sorted(late - self._told):
            why = "is late" if errors[name] is None else f"is late: {errors[name]}"
            logger.warning("%s %s; `taskforge doctor` says more", name, why)
        for name in sorted(self._told - late):
            logger.info("%s is no longer late", name)
        self._told = late


class Node:
    def __init__(
        self,
        services: Sequence[Service],
        *,
        server: "ApiServer | None" = None,
        workers: Sequence[LiveWorker] = (),
        on_failure: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        """`on_failure`, called with the part and its error, stops the node in its caller's own
        way."""
        self.workers = workers
        self._services = services
        self._server = server
        self._on_failure = on_failure or self._stop_for_failure
        self._failures: list[BaseException] = []
        self._is_told_to_stop = False
        self._has_stopped_itself = False

    # --- From outside ---

    async def run(self) -> None:
        """Until stopped, and all has ended in order. Cancelled, it waits for no job."""
        if self.workers:
            collect_less_often()
        start = asyncio.create_task
        async with running(self._services) as beside:
            serving = [] if self._server is None else [start(self._server.run(), name="REST API")]
            working = [start(worker.run(), name=f"worker {worker.name}") for worker in self.workers]
            try:
                await self._watch(working or serving, [*beside, *serving])
            finally:
                await end_tasks(*working)
                await self._end_server(serving)
        if self._failures:
            raise self._failures[0]

    async def run_until_cancelled(self) -> None:
        """For an application: the first cancel lets running jobs finish within the grace time, the
        second does not wait for them."""
        running = asyncio.create_task(self.run())
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                cancelled = error
                self.stop()
        running.result()
        if cancelled is not None:
            raise cancelled

    async def ready(self) -> None:
        """Until every worker takes jobs."""
        for worker in self.workers:
            await worker.ready.wait()

    def stop(self) -> None:
        """The first call lets running jobs and requests finish, the second does not wait for
        jobs."""
        is_first, self._is_told_to_stop = not self._is_told_to_stop, True
        if not (is_first and self._has_stopped_itself):
            self._stop_foremost()

    def health(self) -> list[ServiceHealth]:
        return [health for service in self._services for health in service.health()]

    # --- Within ---

    async def _watch(
        self, foremost: Sequence[asyncio.Task[None]], others: Sequence[asyncio.Task[None]]
    ) -> None:
        left = {*foremost, *others}
        while not left.isdisjoint(foremost):
            ended, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            self._look_at(ended)

    def _look_at(self, ended: Iterable[asyncio.Task[None]]) -> None:
        for task in ended:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._failures.append(error)
                self._on_failure(task.get_name(), error)

    def _stop_for_failure(self, name: str, error: BaseException) -> None:
        """Whoever stops the node after that has not stopped it twice."""
        logger.error("the %s failed, all stop", name, exc_info=error)
        if not self._has_stopped_itself:
            self._has_stopped_itself = True
            if not self._is_told_to_stop:
                self._stop_foremost()

    def _stop_foremost(self) -> None:
        for worker in self.workers:
            worker.stop()
        if not self.workers and self._server is not None:
            self._server.stop()

    async def _end_server(self, serving: Sequence[asyncio.Task[None]]) -> None:
        """Requests that are under way end first."""
        if self._server is None or serving[0].done():
            return
        self._server.stop()
        try:
            await asyncio.wait(serving)
        finally:
            await end_tasks(*serving)
        self._look_at(serving)
