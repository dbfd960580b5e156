"""Circuits on SQLite: what came of executions is counted in the transaction that ends them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from taskforge.domain.breaker import Endings
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Lane
from taskforge.storage.circuits import (
    ADD,
    NO_CIRCUITS,
    RAISE,
    SET,
    TELL,
    CircuitRow,
    Moved,
    ProjectCircuits,
    heard,
)
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import Run
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import SECOND, micros
from taskforge.storage.sqlite.records import text_of
from taskforge.storage.sqlite.transaction import Transaction

_GOOD = codec.EXECUTION_CODE[ExecutionStatus.SUCCEEDED]
_NEITHER = codec.EXECUTION_CODE[ExecutionStatus.CANCELLED]


def save_circuits(transaction: Transaction, project: int, moved: Sequence[Moved]) -> None:
    """Keep how circuits stand, and tell whoever must hear."""
    for one in moved:
        columns = [micros(it) if isinstance(it, datetime) else it for it in one.columns]
        transaction.execute(text_of(SET), columns)
        queue = one.row.queue
        name = None if queue is None else transaction.catalog_cache.queue(queue).name
        event = one.event(name)
        if event is not None:
            values = (project, *event, transaction.now)
            transaction.execute(text_of(TELL), values)
    if any(one.is_told for one in moved):
        transaction.execute(text_of(RAISE), (project,))
        transaction.catalog_cache.doubt(project)
        transaction.wakes = True


def hear_endings(transaction: Transaction, runs: Sequence[Run]) -> bool:
    """Executions have ended: circuits count what came of them. Returns whether some of them were of
    a limited queue, which has room now."""
    cache, has_room = transaction.catalog_cache, False
    by_project: dict[int, list[Lane]] = {}
    for number in {run[0] for run in runs}:
        lane = cache.lane(number)
        by_project.setdefault(lane.project, []).append(lane)
    for project, lanes in by_project.items():
        catalog = cache.of(project)
        circuits = catalog.circuits or NO_CIRCUITS
        counted: list[tuple[Lane, Queue]] = []
        for lane in lanes:
            queue = cache.card(catalog, lane.queue).queue
            has_room |= queue.settings.is_gated
            if circuits.is_counted(queue, lane.job_type):
                counted.append((lane, queue))
        if counted:
            _count(transaction, project, counted, runs, circuits)
    return has_room


def _count(
    transaction: Transaction,
    project: int,
    lanes: Sequence[tuple[Lane, Queue]],
    runs: Iterable[Run],
    circuits: ProjectCircuits,
) -> None:
    by_lane: dict[int, list[Run]] = {}
    for run in runs:
        by_lane.setdefault(run[0], []).append(run)
    rows: dict[int, CircuitRow] = {}
    queues: dict[int, Queue] = {}
    endings: dict[int, list[Endings]] = {}
    for lane, queue in lanes:
        found = [
            CircuitRow(*transaction.execute(sql("circuit_numbered"), (number,)).fetchone())
            for number in circuits.counting(lane.job_type)
        ]
        if queue.settings.circuit_breaker is not None:
            found.append(_circuit_of_type(transaction, project, lane))
        ended = _endings(by_lane[lane.number], transaction.now)
        for row in found:
            rows[row.number], queues[row.number] = row, queue
            endings.setdefault(row.number, []).extend(ended)
    moved = [
        change
        for number, row in rows.items()
        if (change := heard(row, queues[number].settings, endings[number])) is not None
    ]
    save_circuits(transaction, project, moved)


def _circuit_of_type(transaction: Transaction, project: int, lane: Lane) -> CircuitRow:
    pair = (lane.queue, lane.job_type)
    row: Any = transaction.execute(sql("circuit_of_type"), pair).fetchone()
    if row is None:
        transaction.execute(text_of(ADD), (project, *pair, None, None))
        row = transaction.execute(sql("circuit_of_type"), pair).fetchone()
    return CircuitRow(*row)


def _endings(runs: Iterable[Run], now: int) -> list[Endings]:
    counts: dict[int, list[int]] = {}
    for _, _, status, _, _, claimed_at in runs:
        kind = 0 if status == _GOOD else 2 if status == _NEITHER else 1
        counts.setdefault(claimed_at, [0, 0, 0])[kind] += 1
    return [Endings(asked_at / SECOND, now / SECOND, *some) for asked_at, some in counts.items()]
