"""Folds deltas into the minutes of rollups, sums minutes up to hours and hours to days, and removes
what is past its time."""

from array import array
from collections.abc import Collection
from typing import Any

from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.rollup import (
    ANY_WORKER,
    MINUTES,
    Delta,
    Grain,
    Scope,
    decode_cell,
    decode_seen,
    first_kept,
    last_settled,
    starts_of,
    sum_deltas,
    summed_up,
)
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.transaction import Transaction


def fold_rollups(transaction: Transaction, limit: int) -> int:
    """How many deltas there were, and hours and days that were summed up."""
    execute = transaction.execute
    last, count = execute(sql("rollups_to_fold"), (limit,)).fetchone()
    if count:
        _add(transaction, [_delta(*row) for row in execute(sql("take_rollup_deltas"), (last,))])
        execute(sql("fold_workers"), (last,))
        execute(sql("remove_rollup_deltas"), (last,))
    if count == limit:
        return int(count)  # an hour is summed up when nothing of it is left to be added
    summed = sum(_sum_up(transaction, step, limit - count) for step in (Grain.HOUR, Grain.DAY))
    return int(count) + summed


def prune_rollups(transaction: Transaction, walked: int, limit: int) -> int:
    """The slice of scopes behind the last one walked; where the next slice begins."""
    now = codec.moment(transaction.now)
    scopes = transaction.execute(sql("scopes_behind"), (walked, limit)).fetchall()
    for scope, is_pair in scopes:
        for step, first in first_kept(now, is_pair=bool(is_pair)).items():
            wider = MINUTES[Grain.HOUR] if step is Grain.MINUTE else MINUTES[Grain.DAY]
            transaction.execute(sql("prune_rollups"), (scope, int(step), first, wider))
        transaction.execute(sql("prune_scope"), (scope,))
    return int(scopes[-1][0]) if len(scopes) == limit else 0


def _add(transaction: Transaction, deltas: list[Delta]) -> None:
    cells = sum_deltas(deltas)
    numbers = _numbers(transaction, {scope for scope, _ in cells})
    rows, due = [], set()
    for (scope, minute), cell in cells.items():
        number = numbers[scope]
        before = transaction.execute(sql("minute_of_rollups"), (number, minute)).fetchone()
        if before is not None:
            cell.merge(decode_cell(before[0]))
        rows.append((number, int(Grain.MINUTE), minute, scope.project, cell.encode()))
        due |= {(number, int(step), start, scope.project) for step, start in starts_of(minute)}
    transaction.executemany(sql("put_rollup"), rows)
    transaction.executemany(sql("make_rollup_due"), sorted(due))


def _numbers(transaction: Transaction, scopes: Collection[Scope]) -> dict[Scope, int]:
    numbers = {}
    for scope in sorted(scopes):
        values = (*scope[:3], scope.worker.bytes)
        row = transaction.execute(sql("rollup_scope"), values).fetchone()
        if row is None:
            [row] = transaction.execute(sql("add_rollup_scope"), values).fetchall()
        numbers[scope] = row[0]
    return numbers


def _sum_up(transaction: Transaction, step: Grain, limit: int) -> int:
    until = last_settled(codec.moment(transaction.now), step)
    due = transaction.execute(sql("due_rollups"), (int(step), until, limit)).fetchall()
    for scope, _, start, project in due:
        parts = transaction.execute(
            sql("cells_within"), (scope, start, int(step) - 1, MINUTES[step])
        ).fetchall()
        if parts:
            cell = summed_up(decode_cell(part) for (part,) in parts)
            row = (scope, int(step), start, project, cell.encode())
            transaction.execute(sql("put_rollup"), row)
        transaction.execute(sql("forget_rollup_due"), (scope, int(step), start))
    return len(due)


def _delta(
    project: int,
    queue: int,
    job_type: str,
    worker: bytes | None,
    minute: int,
    status: int,
    count: int,
    durations: bytes,
    waits: bytes,
    gauges: str | None,
) -> Delta:
    identity = ANY_WORKER if worker is None else uuid_from_bytes(worker)
    return Delta(
        Scope(project, queue, job_type, identity),
        minute,
        codec.EXECUTION_STATUSES[status] if status else None,
        count,
        _floats(durations),
        _floats(waits),
        *decode_seen(gauges),
    )


def _floats(data: bytes) -> Any:
    numbers = array("f")
    numbers.frombytes(data)
    return numbers
