"""Workers: an identity that survives restarts, and incarnations of it that hold leases."""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.circuit import check_dependencies
from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.versions import mark_of

WORKER_TYPES = ("general", "specialized_cpu", "specialized_io", "specialized_gpu")
MOST_NAMES = 1_000
MOST_EARLIER = 100  # told of to who registers; whoever registers next hears of the rest
# Of its lease, a worker that is silent for so long is unhealthy: 10 seconds of 15. Then two
# heartbeats are missing.
SILENT_PART = 2 / 3
FORMER_SECONDS = 30 * 86_400.0
"""For so long beyond the longest retention it stays known whose life an incarnation was: earlier
tries of a job that waited or was retried are older than its end, from which retention counts."""


class WorkerStatus(enum.StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


class NewWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process that presents itself. `queues` and `types` of None mean all; dead letter
    queues must be named."""

    name: str
    worker_type: str = "general"
    role: str | None = None
    capabilities: dict[str, Any] = {}
    queues: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    max_concurrent_jobs: int = 10
    version: str = ""
    host: str = ""
    pid: int | None = None
    # The same text for all processes that can look for each other by pid, and when this one began:
    # who registers from there is told of those that may have died, and says so if they have.
    machine: str = ""
    pid_started: str = ""
    # What its job types depend on, by type: each has a circuit that they share
    depends_on: dict[str, tuple[str, ...]] = {}


class Earlier(msgspec.Struct, frozen=True):
    """An incarnation from the same machine that has not left: it lives, or died and nobody has said
    so."""

    incarnation: UUID
    pid: int
    pid_started: str


class Registered(msgspec.Struct, frozen=True):
    worker: UUID  # the identity, stable across restarts of the same name
    incarnation: UUID  # this life of it; leases belong to it
    earlier: tuple[Earlier, ...] = ()


class Sample(msgspec.Struct, frozen=True):
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    healthy: bool = True
    # it claims nothing more, and is gone when its last job has ended: shown as draining
    stopping: bool = False
    # held by handlers that did not end when told to; all of them while one holds the event loop
    stuck_slots: int = 0
    # the execution that holds the event loop: the others cannot help what comes of it
    blocking: UUID | None = None


class Renewed(msgspec.Struct, frozen=True):
    """The answer to a lease renewal: whether to stop claiming, which running jobs were asked to
    stop, and what else is wished."""

    drain: bool
    cancelled: tuple[UUID, ...] = ()
    slots: int | None = None  # how many jobs it may run from now on; None: as many as before
    cancel_reasons: dict[UUID, str] = {}  # what whoever asked gave as the reason


class UpdateWorker(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator wants of a worker. Name, slots and drain mode stay until the operator wants
    otherwise, whatever its process is started with."""

    worker: UUID
    name: str | None = None
    max_concurrent_jobs: int | None = None
    capabilities: dict[str, Any] | None = None
    drain_mode: bool | None = None
    as_started: bool = False  # as many slots as its process was started with
    # the mark of the worker that is meant; one that was changed meanwhile is left alone
    expected_mark: str | None = None


class RegisterWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that an operator makes known before anybody runs it: offline, until a process is
    started under its name. Slots that are named are the operator's wish; the rest is what the
    process says of itself, once it is there."""

    name: str
    worker_type: str = "general"
    role: str | None = None
    capabilities: dict[str, Any] = {}
    max_concurrent_jobs: int | None = None

    def presented(self) -> NewWorker:
        worker = NewWorker(
            name=self.name,
            worker_type=self.worker_type,
            role=self.role,
            capabilities=self.capabilities,
        )
        slots = self.max_concurrent_jobs
        return (
            worker if slots is None else msgspec.structs.replace(worker, max_concurrent_jobs=slots)
        )


WorkerChange = RegisterWorker | UpdateWorker


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    incarnation: UUID
    project: int
    name: str
    worker_type: str
    role: str | None
    status: WorkerStatus
    capabilities: dict[str, Any]
    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    max_concurrent_jobs: int  # as operators want it, else as it was started
    drain_mode: bool
    active_jobs: int
    version: str
    host: str
    pid: int | None
    cpu_percent: float | None
    memory_bytes: int | None
    lease_until: datetime
    last_heartbeat: datetime | None
    registered_at: datetime
    updated_at: datetime
    healthy: bool = True  # as it said itself, which is what claims go by
    stuck_slots: int = 0
    blocking: UUID | None = None
    started_as: str = ""  # the name its process was given, by which its next life is known
    started_slots: int = 0
    stopping: bool = False  # it ends by itself

    @property
    def mark(self) -> str:
        """Of what updates may collide over; heartbeats are not."""
        return mark_of(
            self.id, self.name, self.max_concurrent_jobs, self.capabilities, self.drain_mode
        )

    @property
    def accepts_jobs(self) -> bool:
        return self.status is WorkerStatus.ONLINE

    @property
    def drains(self) -> bool:
        """By an operator's wish, or because it ends."""
        return self.drain_mode or self.stopping

    def is_healthy(self, now: datetime, heartbeat_timeout_seconds: float | None = None) -> bool:
        """Whether it is there, well by its own word, and was heard of within this time, which may
        be another than the store's."""
        if self.status is WorkerStatus.OFFLINE or self.last_heartbeat is None:
            return False
        if heartbeat_timeout_seconds is None:
            return self.status is not WorkerStatus.UNHEALTHY
        return (
            self.healthy
            and not self.stuck_slots
            and (now - self.last_heartbeat).total_seconds() <= heartbeat_timeout_seconds
        )

    def judged(self, now: datetime, heartbeat_timeout_seconds: float | None) -> "Worker":
        """With its status as of now."""
        return msgspec.structs.replace(self, status=status_of(self, now, heartbeat_timeout_seconds))


def check_worker(worker: NewWorker | UpdateWorker) -> None:
    if worker.name is not None:
        rules.text("name", worker.name, most=100)
    if worker.max_concurrent_jobs is not None:
        rules.integer("max_concurrent_jobs", worker.max_concurrent_jobs, 1, 1000)
    if worker.capabilities is not None:
        if not isinstance(worker.capabilities, Mapping):
            raise Invalid(
                "capabilities",
                f"is a {type(worker.capabilities).__name__}",
                'use an object such as {"gpu": true}',
            )
        rules.without_nul(
            "capabilities", rules.json_bytes("capabilities", worker.capabilities, most=10_000)
        )
    if isinstance(worker, NewWorker):
        rules.choice("worker_type", worker.worker_type, WORKER_TYPES)
        if worker.role is not None:
            rules.text("role", worker.role, most=100)
        rules.text("version", worker.version, most=100, least=0)
        rules.text("host", worker.host, most=255, least=0)
        if worker.pid is not None:
            rules.integer("pid", worker.pid, 0, 2**31 - 1)
        rules.text("machine", worker.machine, most=100, least=0)
        rules.text("pid_started", worker.pid_started, most=100, least=0)
        for field, names in (("queues", worker.queues), ("types", worker.types)):
            if names is not None:
                _check_names(field, names)
        check_dependencies(worker.depends_on, worker.types, MOST_NAMES)


def _check_names(field: str, names: object) -> None:
    if not isinstance(names, tuple | list | set | frozenset):
        # Text would be taken for the names of its letters: a tuple of one needs its comma.
        what = (
            f"is the text {names[:100]!r}"
            if isinstance(names, str)
            else f"is a {type(names).__name__}"
        )
        raise Invalid(
            field, f"{what}, not a list of names", 'use a list such as ("emails",), or None for all'
        )
    if len(names) > MOST_NAMES:
        raise Invalid(
            field,
            f"are {len(names):,}",
            f"name at most {MOST_NAMES:,}, or none at all to take every one",
        )
    for index, name in enumerate(names):
        rules.text(f"{field}[{index}]", name, most=100)


def check_sample(sample: Sample) -> None:
    if sample.cpu_percent is not None:
        # of one core: a big machine has many
        rules.number("cpu_percent", sample.cpu_percent, 0, 1_000_000)
    if sample.memory_bytes is not None:
        rules.integer("memory_bytes", sample.memory_bytes, 0, 2**62)
    rules.integer("stuck_slots", sample.stuck_slots, 0, 1000)


def check_name_is_free(name: str, bearers: Sequence[Sequence[Any]]) -> None:
    """`bearers`: of other workers that are there and bear the name, or were started under it: id,
    name, given name."""
    for identity, shown, given in bearers:
        whose = (
            f"worker {identity}"
            if shown == name
            else f"worker {shown!r} ({identity}), which was started as {given!r}"
        )
        raise Conflict(f"the name {name!r} is in use by {whose}; choose another one")


def name_beside(name: str, incarnation: UUID) -> str:
    """What a worker is shown as when another one bears its name, which an operator gave away while
    it was not there."""
    return f"{name[:93]}-{incarnation.hex[-6:]}"


def check_may_leave(incarnation: UUID, running: int, *, died: bool) -> None:
    """What a dead worker runs is given to others; one that leaves gives it back itself."""
    if running and not died:
        raise Conflict(
            f"worker incarnation {incarnation} still runs {running} jobs; hand them back first"
        )


def worker_topic(before: Worker, after: Worker) -> str:
    """What readers of events hear of a change."""
    return "worker.draining" if after.drain_mode and not before.drain_mode else "worker.updated"


def status_of(
    worker: Worker, now: datetime, heartbeat_timeout_seconds: float | None = None
) -> WorkerStatus:
    """One rule for what a worker is, from what the store knows of it. A silent one is unhealthy
    before it is offline."""
    heard = worker.last_heartbeat
    if heard is None or worker.lease_until <= now:
        return WorkerStatus.OFFLINE
    lease_seconds = (worker.lease_until - heard).total_seconds()
    bound = (
        SILENT_PART * lease_seconds
        if heartbeat_timeout_seconds is None
        else heartbeat_timeout_seconds
    )
    if not worker.healthy or worker.stuck_slots or (now - heard).total_seconds() > bound:
        return WorkerStatus.UNHEALTHY
    return WorkerStatus.DRAINING if worker.drains else WorkerStatus.ONLINE
