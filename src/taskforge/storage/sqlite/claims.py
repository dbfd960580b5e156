"""Hands jobs to workers: merges the lanes a worker may take, best tier first, then by turn, within
the limits of their queues."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from uuid import UUID

import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.job import Claimed
from taskforge.domain.limiter import LeakyBucket
from taskforge.storage.catalog import OpenLane, Taker, spot_of
from taskforge.storage.lane_views import Frontier
from taskforge.storage.occupancy import LARGE_CLAIM, most_asked
from taskforge.storage.sqlite import codec, silences
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import Row
from taskforge.storage.sqlite.gates import Gates
from taskforge.storage.sqlite.key_claims import (
    Terms,
    are_few_of_many,
    check_moved,
    take_few_of_many,
)
from taskforge.storage.sqlite.taken_jobs import Taken, taken_jobs
from taskforge.storage.sqlite.transaction import Transaction

MOST_ROUNDS = 64
FOREVER = 2**63 - 1
Stand = tuple[int, bytes, int]
"""Where a job stands: turn, fence, and the index of its lane."""


def claim(transaction: Transaction, wish: Claim) -> tuple[list[Claimed], float | None]:
    """The jobs, and after how many seconds a rate limit that held some back lets the next one
    through."""
    taker, slots = _find_taker(transaction, wish.incarnation)
    if not taker.accepts or wish.limit <= 0:
        return [], None
    running = transaction.execute(sql("running_of"), (wish.incarnation.bytes,)).fetchone()[0]
    # What is being reported may have come before this claim did: it makes no more room than there
    # are slots.
    room = slots - max(0, running - min(wish.reporting, 2 * slots))
    return (
        WorkerClaim(transaction, taker, min(wish.limit, room)).claim() if room > 0 else ([], None)
    )


def _find_taker(transaction: Transaction, incarnation: UUID) -> tuple[Taker, int]:
    cache = transaction.catalog_cache
    try:
        return cache.find_taker(incarnation, transaction.steady)
    except LeaseLost:
        silences.bridge(transaction, incarnation)  # perhaps nobody could renew
        return cache.find_taker(incarnation, transaction.steady)


class WorkerClaim:
    """One claim of one worker."""

    def __init__(self, transaction: Transaction, taker: Taker, limit: int) -> None:
        self._transaction = transaction
        self._cache = transaction.catalog_cache
        self._taker = taker
        self._project = taker.project
        self._occupancy = self._cache.occupancy_of(taker.project)
        self._worker = taker.worker.hex
        self._incarnation = taker.incarnation.bytes
        self._incarnation_hex = taker.incarnation.hex
        self._limit = limit
        self._gates = Gates(transaction, limit, taker.project)
        self._taken: Counter[int] = Counter()  # by spot, since lanes were last asked

    def claim(self) -> tuple[list[Claimed], float | None]:
        """The cost is a survey at the lanes that hold jobs, one at the head of each that the worker
        may take, plus the jobs taken. Where very many lanes hold jobs they are remembered, and the
        best of them are asked."""
        surveyed = self._survey()
        claimed: list[Claimed] = []
        spent: set[int] = set()
        for _ in range(MOST_ROUNDS):
            left = self._limit - len(claimed)
            view = self._cache.view(self._taker)
            lanes, frontier = view.best(most_asked(left), spent, left)
            if lanes:
                view.charge(lanes)
                self._taken.clear()
                usable, full = self._gates.within_keys(lanes)
                spent.update(
                    spot_of(lane.number, key) for lane in lanes for key in full.get(lane.queue, ())
                )
                usable = self._gates.within_circuits(usable)
                if are_few_of_many(usable, frontier, left, self._gates):
                    claimed += self._claim_few(usable)
                else:
                    heads = self._find_heads(usable, surveyed and frontier is None)
                    claimed += self._claim_from(usable, heads, frontier, left)
                view.settle(lanes, self._taken)
            if len(claimed) >= self._limit:
                break
            # A key that gave all that it was asked for may hold more.
            spent.update(
                lane.spot
                for lane in lanes
                if lane.most is None or self._taken[lane.spot] < lane.most
            )
            if frontier is None and (claimed or surveyed or not self._survey(needed=True)):
                break
            surveyed |= frontier is None
        return claimed, self._close_gates(len(claimed))

    def _survey(self, *, needed: bool = False) -> bool:
        """Whether all lanes were looked at. A survey that is cheap is made by every claim: then
        nothing that is in the file goes unseen. `needed`: nothing else was found."""
        now = time.monotonic()
        memory = self._occupancy
        if not (memory.may_survey(now) if needed else memory.is_cheap or memory.is_due(now)):
            return False
        self._cache.survey(self._project)
        while needed and self._occupancy.walked:
            self._cache.survey(self._project)
        return not self._occupancy.walked

    def _claim_few(self, lanes: list[OpenLane]) -> list[Claimed]:
        claimed, taken = take_few_of_many(
            self._transaction,
            lanes,
            self._worker,
            self._terms(lanes[0]),
            self._project,
            self._occupancy,
            self._gates,
        )
        self._taken.update(taken)
        return claimed

    def _find_heads(self, lanes: list[OpenLane], is_surveyed: bool) -> list[tuple[int, int]]:
        """Which of these lanes hold something for this worker, by their index, and from which turn
        on."""
        if is_surveyed and len(lanes) == 1 and lanes[0].key == NO_KEY:
            # No other lane to compare it with, and the survey has seen where it begins.
            return self._learn_heads(lanes, [(0, self._occupancy.heads[lanes[0].spot])])
        by_key = any(lane.key != NO_KEY for lane in lanes)
        asked = (
            codec.json([(lane.number, lane.key) if by_key else lane.number for lane in lanes]),
            self._worker,
            self._transaction.now,
            self._incarnation_hex,
            self._project,
        )
        text = sql("heads_by_key" if by_key else "heads")
        return self._learn_heads(lanes, self._transaction.execute(text, asked).fetchall())

    def _claim_from(
        self,
        lanes: list[OpenLane],
        heads: list[tuple[int, int]],
        frontier: Frontier | None,
        limit: int,
    ) -> list[Claimed]:
        """Up to so many jobs of these lanes. Nothing that a lane which is not asked may go before:
        by tier, and by age too where a claim is small."""
        last = frontier and (frontier[0], frontier[1] if limit < LARGE_CLAIM else FOREVER)
        claimed: list[Claimed] = []
        for tier, some in groupby(heads, key=lambda head: lanes[head[0]].tier):
            left = limit - len(claimed)
            if left <= 0 or (last is not None and tier > last[0]):
                break
            until = last[1] if last is not None and tier == last[0] else FOREVER
            stands = [(turn, lanes[index]) for index, turn in some if turn <= until]
            if stands:
                claimed += self._take_tier(stands, left, until)
        return claimed

    def _learn_heads(
        self, lanes: list[OpenLane], heads: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        moment, turns = self._occupancy.moment, dict(heads)
        for index, lane in enumerate(lanes):
            self._occupancy.leave(lane.spot, turns.get(index), moment)
            if isinstance(lane.settings.bucket, LeakyBucket):
                self._cache.unheard.setdefault(self._project, {})[lane.queue] = lane
        return heads

    def _close_gates(self, claimed: int) -> float | None:
        """A gate that nothing stands before any more must hear of that, too."""
        unheard = self._cache.unheard.get(self._project, {})
        for queue, lane in list(unheard.items()):
            settings = self._cache.queue(queue).settings
            if isinstance(settings.bucket, LeakyBucket):
                self._gates.room(msgspec.structs.replace(lane, settings=settings), 0)
            if self._gates.hears_of_quiet(queue, claimed):
                del unheard[queue]
        return self._gates.close(claimed)

    def _take_tier(
        self, heads: list[tuple[int, OpenLane]], limit: int, until: int
    ) -> list[Claimed]:
        """Of lanes of one tier the first jobs, none behind this turn."""
        if len(heads) == 1 and until == FOREVER:
            [(first, lane)] = heads
            room = self._gates.room(lane, min(limit, lane.most or limit))
            return [job for _, _, job in self._take([(lane, first, room)])]
        merged = [stand for stand in self._merged(heads, limit) if stand[0] <= until]
        counts = Counter(map(itemgetter(2), merged))
        taken = self._take(
            [(heads[index][1], heads[index][0], count) for index, count in counts.items()]
        )
        taken.sort(key=itemgetter(0, 1))
        return [job for _, _, job in taken]

    def _merged(self, heads: list[tuple[int, OpenLane]], limit: int) -> list[Stand]:
        """The first jobs of the lanes of one tier, merged by turn. Lanes are read in pieces, and no
        further than they count; those of a limited queue are merged among themselves first, as far
        as the limit lets them. Pieces are sorted together rather than merged job by job in a heap,
        which would be Python's work instead of C's."""
        size = limit * 5 // 4 // len(heads) + 4
        owners = [lane.queue if lane.settings.is_gated else None for _, lane in heads]
        rooms = {None: limit} | {
            owner: self._gates.room(lane, limit)
            for owner, (_, lane) in zip(owners, heads, strict=True)
        }
        merged: dict[int | None, list[Stand]] = {owner: [] for owner in rooms}
        reading = [
            (turn, b"", index, self._pieces(lane, turn, size))
            for index, (turn, lane) in enumerate(heads)
        ]
        while reading:
            read = []
            for turn, fence, index, pieces in reading:
                counts = all(
                    _may_be_among(rooms[owner], merged[owner], turn, fence)
                    for owner in {owners[index], None}
                )
                piece = next(pieces, None) if counts else None
                if piece:
                    read.append((piece, index, pieces))
            for piece, index, _ in read:
                merged[owners[index]] += [(turn, fence, index) for turn, fence in piece]
            for owner, stands in merged.items():
                stands.sort()
                del stands[rooms[owner] :]
            reading = [(*piece[-1], index, pieces) for piece, index, pieces in read]
        return sorted(chain(*merged.values()))[:limit]

    def _pieces(self, lane: OpenLane, turn: int, size: int) -> Iterator[list[tuple[int, bytes]]]:
        """(turn, fence) of a lane's jobs in order, from this turn on, and no more than it is their
        turn to give. Each piece is read to its end: no cursor stays open across the deletes."""
        fence, left = b"", lane.most
        while left is None or left > 0:
            size = size if left is None else min(size, left)
            rows = self._transaction.execute(
                sql("turns"),
                (
                    lane.number,
                    turn,
                    fence,
                    self._worker,
                    size,
                    self._transaction.now,
                    self._incarnation_hex,
                    self._project,
                    lane.key,
                ),
            ).fetchall()
            left = None if left is None else left - len(rows)
            if rows:
                yield rows
            if len(rows) < size:
                return
            turn, fence = rows[-1]

    def _take(self, shares: Iterable[tuple[OpenLane, int, int]]) -> list[Taken]:
        """Move so many jobs of each lane, from this turn on, from ready to running. Per job: 1.4 µs
        to read, 1.4 to write, 0.5 to delete; carried back row by row the write alone is 3.9."""
        taken: list[Taken] = []
        plain: list[Row] = []
        full: list[Row] = []
        for lane, first, count in shares:
            if count <= 0:
                continue
            rows: list[Row] = self._transaction.execute(
                sql("take"),
                (
                    lane.number,
                    self._worker,
                    count,
                    self._transaction.now,
                    first,
                    self._incarnation_hex,
                    self._project,
                    lane.key,
                ),
            ).fetchall()
            if not rows:
                continue
            fence, turn = rows[-1][:2]
            self._occupancy.leave(lane.spot, turn, self._occupancy.moment)
            self._taken[lane.spot] += len(rows)
            # Facts that matter here are rare; where no job has any, a second visit to them is
            # spared (1.1 against 1.7 µs a job).
            has_facts = any(row[5] is not None or row[6] is not None for row in rows)
            (full if has_facts else plain).append(
                (
                    lane.number,
                    turn,
                    fence,
                    self._worker,
                    *self._terms(lane),
                    first,
                    self._incarnation_hex,
                    self._project,
                    lane.key,
                )
            )
            self._gates.use(lane, len(rows))
            taken += taken_jobs(lane, rows, self._transaction.now)
        moved = gone = 0
        for name, lanes in (("take_into_plain", plain), ("take_into", full)):
            if lanes:
                moved += self._transaction.executemany(sql(name), lanes).rowcount
                gone += self._transaction.executemany(
                    sql("take_from"), [(*lane[:4], lane[5], *lane[9:]) for lane in lanes]
                ).rowcount
        check_moved(len(taken), moved, gone)
        return taken

    def _terms(self, lane: OpenLane) -> Terms:
        """Under what a job of this lane's queue runs."""
        settings = lane.settings
        gate = lane.queue if settings.is_gated else None
        return (
            self._incarnation,
            self._transaction.now,
            settings.timeout_seconds,
            settings.heartbeat_timeout_seconds,
            gate,
        )


def _may_be_among(most: int, stands: list[Stand], turn: int, fence: bytes) -> bool:
    """Whether something behind this turn and fence may be among the first `most`."""
    return len(stands) < most or (most > 0 and (turn, fence) < stands[most - 1][:2])
