"""Keeps jobs moving, in bounded slices that any process may run: staging, expiry, folding."""

from functools import partial

from taskforge.domain.changes import SKIPPED_BY_ALL, End, ExpireJob, Standing, plan
from taskforge.domain.claim import Lapsed
from taskforge.domain.finding import UpkeepState
from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import (
    HELD_UP,
    LEASE_RAN_OUT,
    MISFIT_SECONDS,
    MOST_UNEXPLAINED,
    NOT_BEGUN,
    Attempt,
    Crashed,
    DeadlinePassed,
    DiedBeforeStart,
    HandBackOutcome,
    HeartbeatMissed,
    LeaseRanOut,
    Outcome,
    TimedOut,
    park_seconds,
)
from taskforge.domain.query import Pruned
from taskforge.storage.catalog import may_take
from taskforge.storage.sqlite import codec, pruning, silences
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import span
from taskforge.storage.sqlite.endings import WaitingEnd, end
from taskforge.storage.sqlite.queues import cancelled
from taskforge.storage.sqlite.readers import Readers
from taskforge.storage.sqlite.rollups import fold_rollups, prune_rollups
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Transaction
from taskforge.storage.sqlite.workers import offer_parked
from taskforge.storage.sqlite.writer import Writer

# at so many times as many skipped jobs as may be changed: of the first, all may wait for a worker
# that is busy
LOOKS = 10


class SqliteUpkeep:
    """The slices that read first and then write, and what they remember from one to the next."""

    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._readers = readers
        self._writer = writer
        self._clean: set[int] = set()  # deleted queues that hold no jobs any more
        self._walked = b""  # the skipped job behind which the next look goes on
        self._walked_scopes = 0  # the same for the pruning of rollups

    async def prune(self, retention_days: float, limit: int) -> Pruned:
        self._walked_scopes = await self._writer.submit(
            partial(prune_rollups, walked=self._walked_scopes, limit=limit), lazy=True
        )
        old, more = await self._readers.search(
            lambda seen: pruning.find_old(seen, retention_days, limit)
        )
        return await self._writer.submit(
            lambda transaction: pruning.prune(transaction, retention_days, old, limit, more=more)
        )

    async def lapsed(
        self, limit: int, *, unless_within: float, rhythm: float | None
    ) -> list[Lapsed]:
        if not await self._readers.read(lambda seen: is_look_due(seen, unless_within, rhythm)):
            return []
        # A look is a write: whoever cannot write must not judge those who could not either.
        now, steady = await self._writer.submit(
            lambda transaction: silences.look(transaction, rhythm), lazy=True
        )
        # As of the look: whatever held this process up since then may have held up the others too.
        return await self._readers.read(lambda seen: find_lapsed(seen, limit, now, steady))

    async def expire(self, limit: int) -> int:
        stranded, clean = await self._readers.read(
            lambda seen: find_stranded(seen, limit, self._clean)
        )
        self._clean |= clean
        work = partial(expire, limit=limit, stranded=stranded, behind=self._walked)
        ended, self._walked = await self._writer.submit(work)
        return ended


def stage(transaction: Transaction, limit: int) -> int:
    """Due jobs become pending, in the order of their times."""
    long_enough = transaction.now - codec.span(MISFIT_SECONDS)
    moved = transaction.execute(sql("stage"), (transaction.now, limit, long_enough)).rowcount
    if moved:
        staged = transaction.execute(sql("unstage"), (transaction.now, moved)).fetchall()
        for project, lane, key, turn in set(staged):
            transaction.catalog_cache.tell(project, lane, turn or transaction.now, key)
        transaction.wakes = True
    return moved


# --- Lapsed claims ---


def is_look_due(snapshot: ReadSnapshot, unless_within: float, rhythm: float | None) -> bool:
    """Whether to look for lapsed claims: something may have lapsed, and nobody looked within these
    seconds. While nothing runs and no worker lived since the last look, there is nothing to see,
    and the file is left alone."""
    at, promised, alive = snapshot.execute(sql("look_due")).fetchone()
    since = snapshot.steady - at
    if not alive and (rhythm is None or promised == span(rhythm)):
        return False
    return bool(since < 0 or since >= span(unless_within))


def find_lapsed(snapshot: ReadSnapshot, limit: int, now: int, steady: int) -> list[Lapsed]:
    """Claims that were over at this moment, given by both clocks."""
    cache = snapshot.catalog_cache
    found = []
    for row in snapshot.execute(
        sql("lapsed"), (now, limit, steady, LEASE_RAN_OUT, HELD_UP, MOST_UNEXPLAINED, NOT_BEGUN)
    ):
        (
            fence,
            lane,
            attempt,
            max_attempts,
            crashes,
            cancel,
            timeout,
            beat,
            name,
            worker,
            why,
            deadline_passed,
            _,
            losses,
        ) = row
        outcome: Outcome
        if why == 0:
            outcome = DeadlinePassed()
        elif why == 1:
            outcome = Crashed(name)
        elif why == 2:
            outcome = TimedOut(timeout)
        elif why == 3:
            outcome = HeartbeatMissed(beat)
        elif why == 4:
            outcome = HandBackOutcome(HELD_UP)
        elif why == 6:
            outcome = DiedBeforeStart(name, losses)
        else:
            outcome = LeaseRanOut(str(uuid_from_bytes(worker)) if name is None else name, losses)
        standing = Attempt(
            attempt, max_attempts, crashes, codec.epoch(fence), bool(cancel), bool(deadline_passed)
        )
        settings = cache.queue_in(cache.lane(lane)).settings
        found.append(Lapsed(uuid_from_bytes(fence), standing, outcome, settings))
    return found


# --- Expiry ---


def find_stranded(
    snapshot: ReadSnapshot, limit: int, clean: set[int]
) -> tuple[list[bytes], set[int]]:
    """Jobs that stand in deleted queues, and the queues found to have none: since nothing enters a
    deleted queue, they stay so."""
    deleted = {number for (number,) in snapshot.execute(sql("deleted_queues"))} - clean
    if not deleted:
        return [], set()
    rows = snapshot.execute(sql("stranded"), (codec.json(list(deleted)), limit)).fetchall()
    return [fence for (fence,) in rows], deleted if not rows else set()


def expire(
    transaction: Transaction, limit: int, stranded: list[bytes], behind: bytes
) -> tuple[int, bytes]:
    """How many were changed, and behind which of the skipped jobs the next look goes on; this one
    does behind `behind`."""
    ended = end(transaction, cancelled(stranded[:limit]))
    late: list[WaitingEnd] = []
    for name in ("ready_late", "waiting_late"):
        rows = transaction.execute(
            sql(name), (transaction.now, limit - ended - len(late))
        ).fetchall()
        late += [
            _expired(fence, "deadline passed" if deadline_passed else "expired")
            for fence, deadline_passed in rows
        ]
    ended += end(transaction, late)
    if ended >= limit:
        return ended, behind
    refused, unfit, walked = _refused_by_all(transaction, limit - ended, behind)
    _park(transaction, unfit)
    return ended + len(unfit) + end(transaction, refused) + offer_parked(transaction, limit), walked


def _refused_by_all(
    transaction: Transaction, limit: int, behind: bytes
) -> tuple[list[WaitingEnd], dict[bytes, float], bytes]:
    """Up to `limit` jobs that every live worker able to take them has skipped: those that fail,
    those whose arguments fitted none of these workers, with for how long, and where the next look
    goes on. It begins anew behind the last: whatever waits for a busy worker keeps nobody else's
    job from being looked at. Without any able worker they wait for one."""
    rows = transaction.execute(sql("skipped"), (behind, LOOKS * limit)).fetchall()
    if not rows:
        return [], {}, b""
    walked = rows[-1][0] if len(rows) == LOOKS * limit else b""
    cache = transaction.catalog_cache
    takers = cache.live_takers(transaction.steady)
    able: dict[int, list[tuple[str, str]]] = {}
    refused: list[WaitingEnd] = []
    unfit: dict[bytes, float] = {}
    for fence, lane, skipped, misfit_at in rows:
        if lane not in able:
            one = cache.lane(lane)
            card = cache.card(cache.of(one.project), one.queue)
            fit = [taker for taker in takers if may_take(taker, card, one)]
            able[lane] = [(taker.worker.hex, taker.incarnation.hex) for taker in fit]
        unwilling = set(codec.texts(skipped) or ())
        if not able[lane] or not all(
            worker in unwilling or life in unwilling for worker, life in able[lane]
        ):
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
    transaction.executemany(sql("offer_again"), [(fence,) for fence in due])
    if parked:
        times = codec.json([transaction.now + codec.span(spans[fence]) for fence in parked])
        transaction.execute(sql("park"), (b"".join(parked), times))
        transaction.execute(sql("leave_ready"), (b"".join(parked), codec.positions(len(parked))))


def _expired(fence: bytes, reason: str) -> WaitingEnd:
    move = plan(ExpireJob(reason), _ANY_PENDING)
    assert isinstance(move, End)
    return WaitingEnd(fence, codec.JOB_CODE[move.status], move.reason, move.error)


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
    folded = fold_rollups(transaction, limit)
    last, tallies = transaction.execute(sql("tallies_to_fold"), (limit,)).fetchone()
    if tallies:
        transaction.execute(sql("fold_tallies"), (last,))
        transaction.execute(sql("remove_tally_deltas"), (last,))
    return folded + int(tallies)


def behind(snapshot: ReadSnapshot) -> UpkeepState:
    """As behind.sql of PostgreSQL says."""
    [row] = snapshot.execute(sql("behind"), (snapshot.now, snapshot.steady)).fetchall()
    names = ("staging", "rescue", "expiry", "folding", "scheduler")
    return UpkeepState(
        {name: max(0.0, (value or 0) / 1e6) for name, value in zip(names, row, strict=True)}
    )
