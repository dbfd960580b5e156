"""Registers workers and keeps their leases."""

import sqlite3
from collections.abc import Sequence
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.outcome import OFFERED_AT_ONCE
from taskforge.domain.query import WorkerTotals
from taskforge.domain.versions import check_same
from taskforge.domain.worker import (
    MOST_EARLIER,
    Earlier,
    NewWorker,
    Registered,
    RegisterWorker,
    Renewed,
    Sample,
    Worker,
    WorkerChange,
    check_may_leave,
    check_name_is_free,
    check_worker,
    name_beside,
    worker_topic,
)
from taskforge.storage.sqlite import bookkeeping, codec, silences
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import span
from taskforge.storage.sqlite.transaction import Transaction

DAY_SECONDS = 86_400.0


def register(
    transaction: Transaction, project: int, worker: NewWorker, lease_seconds: float
) -> Registered:
    check_worker(worker)
    silences.begin(transaction)
    identity, incarnation = _begin_life(transaction, project, worker, lease_seconds)
    types = None if worker.types is None else codec.json(worker.types)
    offered = transaction.execute(
        sql("unpark"), (transaction.now, project, types, OFFERED_AT_ONCE)
    ).rowcount
    if offered == OFFERED_AT_ONCE:
        transaction.execute(sql("set_new"), (incarnation.bytes, 1))
    since = transaction.steady - span(DAY_SECONDS)
    rows = transaction.execute(
        sql("earlier"), (project, worker.machine, incarnation.bytes, since, MOST_EARLIER)
    )
    return Registered(
        identity,
        incarnation,
        tuple(Earlier(uuid_from_bytes(key), pid, started) for key, pid, started in rows),
    )


def _begin_life(
    transaction: Transaction,
    project: int,
    worker: NewWorker,
    lease_seconds: float,
    wish: int | None = None,
) -> tuple[UUID, UUID]:
    """Its identity and its incarnation. `wish`: how many slots an operator wants it to have."""
    if transaction.execute(sql("project_is_there"), (project,)).fetchone() is None:
        raise NotFound("project", str(project))
    before = transaction.execute(sql("worker_named"), (project, worker.name)).fetchone()
    incarnation, now = transaction.mint(), transaction.now
    key, name, wished, drains = (
        (transaction.mint().bytes, worker.name, None, 0) if before is None else before
    )
    identity = uuid_from_bytes(key)
    if any(bearer[1] == name for bearer in _bearers(transaction, project, name, identity)):
        name = name_beside(worker.name, incarnation)
    transaction.execute(
        sql("register"),
        (
            incarnation.bytes,
            identity.bytes,
            project,
            name,
            worker.worker_type,
            worker.role,
            codec.json(worker.capabilities),
            None if worker.queues is None else codec.json(worker.queues),
            None if worker.types is None else codec.json(worker.types),
            worker.max_concurrent_jobs,
            worker.version,
            worker.host,
            worker.pid,
            transaction.steady + span(lease_seconds),
            now,
            worker.name,
            wished if wish is None else wish,
            drains,
            lease_seconds,
            worker.machine,
            worker.pid_started,
        ),
    )
    bookkeeping.announce(transaction, project, "worker.registered", worker=identity)
    return identity, incarnation


def offer_parked(transaction: Transaction, limit: int) -> int:
    """What registrations have left to do: one offers the first few jobs only."""
    offered = 0
    newcomers = transaction.execute(sql("new_workers"), (transaction.steady,)).fetchall()
    for incarnation, project, types in newcomers:
        left = limit - offered
        if left <= 0:
            break
        found = transaction.execute(sql("unpark"), (transaction.now, project, types, left)).rowcount
        if found < left:
            transaction.execute(sql("set_new"), (incarnation, 0))
        offered += found
    return offered


def renew(
    transaction: Transaction, asked_at: int, incarnation: UUID, lease_seconds: float, sample: Sample
) -> Renewed:
    """Whoever asked in time was in time, however long the file was busy; what was taken away
    meanwhile is refused by its fence."""
    now, key = transaction.now, incarnation.bytes
    row = transaction.execute(sql("lease_held"), (key,)).fetchone()
    heard = None if row is None or row[3] is None else row[0] - span(row[2])
    if row is not None and (row[0] <= asked_at or silences.is_silent(transaction, heard)):
        silences.bridge(transaction, incarnation)  # perhaps nobody could renew
        row = transaction.execute(sql("lease_held"), (key,)).fetchone()
    if row is None or row[0] <= asked_at:
        raise transaction.catalog_cache.lost(incarnation)
    until, state = (
        transaction.steady + span(lease_seconds),
        (sample.cpu_percent, sample.memory_bytes, sample.healthy),
    )
    blocking = None if sample.blocking is None else sample.blocking.bytes
    values = (until, now, *state, key, sample.stopping, sample.stuck_slots, blocking, lease_seconds)
    drains, slots = transaction.execute(sql("renew"), values).fetchone()
    if bool(row[1]) != sample.healthy:
        transaction.catalog_cache.raise_version(row[4])
    asked = {
        uuid_from_bytes(fence): reason
        for fence, reason in transaction.execute(sql("asked_to_stop"), (key,))
    }
    reasons = {fence: reason for fence, reason in asked.items() if reason}
    return Renewed(bool(drains), tuple(asked), slots, reasons)


def deregister(
    transaction: Transaction,
    *,
    incarnation: UUID,
    note: Note | None,
    expected_mark: str | None,
    died: bool,
    projects: Sequence[int] | None,
) -> None:
    known = [
        (project, name, uuid_from_bytes(key))
        for project, name, key in transaction.execute(sql("worker_of"), (incarnation.bytes,))
    ]
    if expected_mark is not None:
        for project, name, identity in known:
            check_same(
                f"worker {name!r}", expected_mark, _latest(transaction, project, identity).mark
            )
    running = transaction.execute(sql("running_of"), (incarnation.bytes,)).fetchone()[0]
    check_may_leave(incarnation, running, died=died)
    within = None if projects is None else codec.json(list(projects))
    values = (transaction.now, incarnation.bytes, died, within, transaction.steady)
    for left, identity in transaction.execute(sql("deregister"), values).fetchall():
        bookkeeping.announce(transaction, left, "worker.left", worker=uuid_from_bytes(identity))
    if note is not None:
        bookkeeping.enter(transaction, [trail.worker_left(note, *one) for one in known])


def change_worker(
    transaction: Transaction, project: int, change: WorkerChange, note: Note | None
) -> Worker:
    if isinstance(change, RegisterWorker):
        return _register_ahead(transaction, project, change, note)
    check_worker(change)
    before = _latest(transaction, project, change.worker)
    check_same(f"worker {before.name!r}", change.expected_mark, before.mark)
    if change.name is not None:
        check_name_is_free(change.name, _bearers(transaction, project, change.name, change.worker))
    capabilities = None if change.capabilities is None else codec.json(change.capabilities)
    values = (
        change.name,
        change.max_concurrent_jobs,
        capabilities,
        change.drain_mode,
        transaction.now,
        change.worker.bytes,
        project,
        change.as_started,
    )
    transaction.execute(sql("update_worker"), values)
    transaction.catalog_cache.raise_version(project)
    transaction.wakes = True  # a worker that no longer drains may find jobs
    after = _latest(transaction, project, change.worker)
    bookkeeping.announce(transaction, project, worker_topic(before, after), worker=after.id)
    if note is not None:
        bookkeeping.enter(transaction, [trail.worker_changed(note, before, after)])
    return after


def _register_ahead(
    transaction: Transaction, project: int, change: RegisterWorker, note: Note | None
) -> Worker:
    check_worker(worker := change.presented())
    rows = transaction.execute(
        sql("bearer_ahead"), (project, worker.name, transaction.steady)
    ).fetchall()
    check_name_is_free(
        worker.name, [(uuid_from_bytes(key), shown, given) for key, shown, given in rows]
    )
    identity, _ = _begin_life(transaction, project, worker, 0.0, change.max_concurrent_jobs)
    made = _latest(transaction, project, identity)
    if note is not None:
        bookkeeping.enter(transaction, [trail.worker_changed(note, None, made)])
    return made


def _bearers(
    transaction: Transaction, project: int, name: str, but: UUID
) -> list[tuple[UUID, str, str]]:
    rows = transaction.execute(
        sql("bearer"), (project, name, but.bytes, transaction.steady)
    ).fetchall()
    return [(uuid_from_bytes(key), shown, given) for key, shown, given in rows]


def _latest(transaction: Transaction, project: int, identity: UUID) -> Worker:
    cursor = transaction.connection.cursor()
    cursor.row_factory = sqlite3.Row
    row = cursor.execute(sql("latest_worker"), (project, identity.bytes)).fetchone()
    if row is None:
        raise NotFound("worker", str(identity))
    return codec.worker(row, transaction.now, transaction.steady)


def totals(connection: sqlite3.Connection, projects: Sequence[int]) -> list[WorkerTotals]:
    rows = connection.execute(sql("worker_totals"), (codec.json(list(projects)),)).fetchall()
    return [
        WorkerTotals(uuid_from_bytes(worker), completed, failed)
        for worker, completed, failed in rows
    ]


def list_workers(
    connection: sqlite3.Connection, projects: Sequence[int], now: int, steady: int
) -> list[Worker]:
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    rows = cursor.execute(sql("workers"), (codec.json(list(projects)), steady)).fetchall()
    return [codec.worker(row, now, steady) for row in rows]
