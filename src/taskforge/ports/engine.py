"""The ports taken together."""

from typing import Protocol, TypeGuard

from taskforge.ports.catalogs import Queues, Workers
from taskforge.ports.directory import Directory, StoreDirectory
from taskforge.ports.dispatch import Dispatch
from taskforge.ports.events import EventLog
from taskforge.ports.examination import Examination
from taskforge.ports.jobs import Executions, Jobs
from taskforge.ports.lifecycle import Lifecycle, StoreLifecycle
from taskforge.ports.records import Records
from taskforge.ports.schedules import SlotFiring
from taskforge.ports.upkeep import Maintenance
from taskforge.ports.work import Leases, StoreLeases, Work


class AnyEngine(Lifecycle, Jobs, Executions, Queues, Workers, Leases, Protocol):
    """What a store and a server in front of one both answer."""

    @property
    def directory(self) -> Directory: ...


class Engine(
    AnyEngine,
    StoreLifecycle,
    StoreLeases,
    Work,
    Maintenance,
    EventLog,
    Records,
    SlotFiring,
    Dispatch,
    Examination,
    Protocol,
):
    """A store that this process reaches itself."""

    @property
    def directory(self) -> StoreDirectory: ...


def is_store(engine: AnyEngine) -> TypeGuard[Engine]:
    """Whether this process reaches the store itself; behind a server, the server hands out the work
    and does the upkeep."""
    return isinstance(engine, Work)
