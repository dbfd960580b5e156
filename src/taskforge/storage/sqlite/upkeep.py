"""Keeps jobs moving, in bounded slices that any process may run: staging, expiry, folding."""

from taskforge.domain.changes import End, ExpireJob, Standing, plan
from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.job import JobStatus
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.ending import Waiter, end
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.queues import cancelled
from taskforge.storage.sqlite.reading import Snapshot
from taskforge.storage.sqlite.transaction import Transaction


def stage(transaction: Transaction, limit: int) -> int:
    """Due jobs become pending, in the order of their times."""
    moved = transaction.execute(sql("stage"), (transaction.now, limit)).rowcount
    if moved:
        transaction.execute(sql("unstage"), (transaction.now, moved))
        transaction.wakes = True
    return moved


# --- Expiry ---


def find_stranded(snapshot: Snapshot, limit: int, clean: set[int]) -> tuple[list[bytes], set[int]]:
    """Jobs that stand in deleted queues, and the queues found to have none: since nothing enters a deleted queue, they stay so."""
    catalog = snapshot.keeper.current()
    deleted = {number for number, queue in catalog.queues.items() if queue.deleted_at is not None} - clean
    if not deleted:
        return [], set()
    rows = snapshot.execute(sql("stranded"), (codec.json(catalog.lanes_of(deleted)), limit)).fetchall()
    return [fence for (fence,) in rows], deleted if not rows else set()


def expire(transaction: Transaction, limit: int, stranded: list[bytes]) -> int:
    ended = end(transaction, cancelled(stranded[:limit]))
    late: list[Waiter] = []
    for name in ("ready_late", "waiting_late"):
        rows = transaction.execute(sql(name), (transaction.now, limit - ended - len(late))).fetchall()
        late += [_expired(fence, "deadline passed" if deadline_passed else "expired") for fence, deadline_passed in rows]
    ended += end(transaction, late)
    return ended + end(transaction, _refused_by_all(transaction, limit - ended))


def _refused_by_all(transaction: Transaction, limit: int) -> list[Waiter]:
    """Jobs that every live worker able to take them has skipped. Without any able worker they wait for one."""
    rows = transaction.execute("select fence, lane, skipped from ready where skipped is not null").fetchall() if limit > 0 else []
    if not rows:
        return []
    catalog, takers = transaction.keeper.current(), transaction.keeper.live_takers(transaction.steady)
    able: dict[int, set[str]] = {}
    found = []
    for fence, lane, skipped in rows:
        if lane not in able:
            able[lane] = {taker.worker.hex for taker in takers if catalog.may_take(taker, catalog.lanes[lane])}
        if able[lane] and able[lane] <= set(codec.texts(skipped) or ()):
            found.append(_expired(fence, "skipped by every able worker"))
    return found[:limit]


def _expired(fence: bytes, reason: str) -> Waiter:
    move = plan(ExpireJob(reason), _ANY_PENDING)
    assert isinstance(move, End)
    return Waiter(fence, codec.JOB_CODE[move.status], move.reason, codec.error_text(move.error))


_ANY_PENDING = Standing(
    job=uuid_from_bytes(bytes(16)),
    status=JobStatus.PENDING,
    queue="",
    priority=0,
    attempt=0,
    max_attempts=1,
    crashes=0,
    origin_queue=None,
)


# --- Folding ---


def fold(transaction: Transaction, limit: int) -> int:
    """Sum deltas into rollups and tallies; returns how many there were."""
    folded = 0
    for name in ("rollups", "tallies"):
        table = "rollup_deltas" if name == "rollups" else "tally_deltas"
        left = limit - folded
        row = transaction.execute(
            f"select max(number), count(*) from (select number from {table} order by number limit ?)",
            (left,),
        ).fetchone()
        if row[1]:
            transaction.execute(sql(f"fold_{name}"), (row[0],))
            if name == "rollups":
                transaction.execute(sql("fold_workers"), (row[0],))
            transaction.execute(f"delete from {table} where number <= ?", (row[0],))
            folded += row[1]
    return folded
