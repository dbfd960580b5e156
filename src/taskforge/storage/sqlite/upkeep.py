"""Keeps jobs moving, in bounded slices that any process may run: staging, expiry, folding."""

from taskforge.domain.changes import SKIPPED_BY_ALL, End, ExpireJob, Standing, plan
from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import MISFIT_SECONDS, park_seconds
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.ending import Waiter, end
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.queues import cancelled
from taskforge.storage.sqlite.reading import Snapshot
from taskforge.storage.sqlite.transaction import Transaction
from taskforge.storage.sqlite.workers import offer_parked

LOOKS = 10  # at so many times as many skipped jobs as may be changed: of the first, all may wait for a worker that is busy


def stage(transaction: Transaction, limit: int) -> int:
    """Due jobs become pending, in the order of their times."""
    long_enough = transaction.now - codec.span(MISFIT_SECONDS)
    moved = transaction.execute(sql("stage"), (transaction.now, limit, long_enough)).rowcount
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


def expire(transaction: Transaction, limit: int, stranded: list[bytes], behind: bytes) -> tuple[int, bytes]:
    """How many were changed, and behind which of the skipped jobs the next look goes on; this one does behind `behind`."""
    ended = end(transaction, cancelled(stranded[:limit]))
    late: list[Waiter] = []
    for name in ("ready_late", "waiting_late"):
        rows = transaction.execute(sql(name), (transaction.now, limit - ended - len(late))).fetchall()
        late += [_expired(fence, "deadline passed" if deadline_passed else "expired") for fence, deadline_passed in rows]
    ended += end(transaction, late)
    if ended >= limit:
        return ended, behind
    refused, unfit, walked = _refused_by_all(transaction, limit - ended, behind)
    _park(transaction, unfit)
    return ended + len(unfit) + end(transaction, refused) + offer_parked(transaction, limit), walked


def _refused_by_all(transaction: Transaction, limit: int, behind: bytes) -> tuple[list[Waiter], dict[bytes, float], bytes]:
    """Up to `limit` jobs that every live worker able to take them has skipped: those that fail, those whose arguments fitted none
    of these workers, with for how long, and where the next look goes on. It begins anew behind the last: whatever waits for a
    busy worker keeps nobody else's job from being looked at. Without any able worker they wait for one."""
    statement = "select fence, lane, skipped, misfit_at from ready where skipped is not null and fence > ? order by fence limit ?"
    rows = transaction.execute(statement, (behind, LOOKS * limit)).fetchall()
    if not rows:
        return [], {}, b""
    walked = rows[-1][0] if len(rows) == LOOKS * limit else b""
    catalog, takers = transaction.keeper.current(), transaction.keeper.live_takers(transaction.steady)
    able: dict[int, list[tuple[str, str]]] = {}
    refused: list[Waiter] = []
    unfit: dict[bytes, float] = {}
    for fence, lane, skipped, misfit_at in rows:
        if lane not in able:
            fit = [taker for taker in takers if catalog.may_take(taker, catalog.lanes[lane])]
            able[lane] = [(taker.worker.hex, taker.incarnation.hex) for taker in fit]
        unwilling = set(codec.texts(skipped) or ())
        if not able[lane] or not all(worker in unwilling or life in unwilling for worker, life in able[lane]):
            continue
        if misfit_at is None:
            refused.append(_expired(fence, SKIPPED_BY_ALL))
        else:
            unfit[fence] = (transaction.now - misfit_at) / codec.SECOND
        if len(refused) + len(unfit) == limit:
            walked = fence
            break
    return refused, unfit, walked


def _park(transaction: Transaction, unfit: dict[bytes, float]) -> None:
    """`unfit`: how long the arguments of each have fitted no handler."""
    spans = {fence: park_seconds(waited) for fence, waited in unfit.items()}
    due = [fence for fence, seconds in spans.items() if seconds <= 0]
    parked = [fence for fence, seconds in spans.items() if seconds > 0]
    transaction.executemany("update ready set skipped = null where fence = ?", [(fence,) for fence in due])
    if parked:
        times = codec.json([transaction.now + codec.span(spans[fence]) for fence in parked])
        transaction.execute(sql("park"), (b"".join(parked), times))
        transaction.execute(sql("leave_ready"), (b"".join(parked), codec.positions(len(parked))))


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
