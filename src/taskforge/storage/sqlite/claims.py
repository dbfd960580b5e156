"""Hands jobs to workers: merges the lanes a worker may take, best tier first, then by turn, within the limits of their queues."""

import heapq
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.job import Claimed
from taskforge.storage.catalog import OpenLane
from taskforge.storage.engine import Claim
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.codec import SECOND, Row
from taskforge.storage.sqlite.gates import Gates
from taskforge.storage.sqlite.keeper import Reach, sql
from taskforge.storage.sqlite.transaction import Transaction

_TAKE, _MOVE, _MOVE_PLAIN, _LEAVE = (sql(name) for name in ("take", "take_into", "take_into_plain", "take_from"))
_HEADS, _TURNS = sql("heads"), sql("turns")


def claim(transaction: Transaction, wish: Claim) -> list[Claimed]:
    reach = transaction.keeper.reach(wish.incarnation, transaction.now)
    if not reach.lanes or wish.limit <= 0:
        return []
    return Claimer(transaction, reach).claim(wish.limit)


class Claimer:
    """One claim of one worker."""

    def __init__(self, transaction: Transaction, reach: Reach) -> None:
        self._transaction = transaction
        self._lanes = reach.lanes
        self._numbers = reach.numbers
        self._worker = reach.taker.worker.hex
        self._incarnation = reach.taker.incarnation.bytes
        self._gates = Gates(transaction)

    def claim(self, limit: int) -> list[Claimed]:
        """The cost is one look at the head of each lane, plus the jobs taken; lanes that other workers serve are not looked at."""
        lanes = self._lanes
        heads = self._transaction.execute(_HEADS, (self._numbers, self._worker)).fetchall()
        claimed: list[Claimed] = []
        for _, tier in groupby(heads, key=lambda head: lanes[head[0]].tier):
            left = limit - len(claimed)
            if left <= 0:
                break
            claimed += self._take_tier([(turn, lanes[index]) for index, turn in tier], left)
        self._gates.save()
        return claimed

    def _take_tier(self, heads: list[tuple[int, OpenLane]], limit: int) -> list[Claimed]:
        if len(heads) == 1:
            lane = heads[0][1]
            return [job for _, _, job in self._claimed(lane, self._take(lane, self._gates.room(lane, limit)))]
        taken = [one for lane, count in self._shares(heads, limit) for one in self._claimed(lane, self._take(lane, count))]
        taken.sort(key=itemgetter(0, 1))
        return [job for _, _, job in taken]

    def _shares(self, heads: list[tuple[int, OpenLane]], limit: int) -> list[tuple[OpenLane, int]]:
        """How many jobs each lane of one tier gives when they are merged by turn. A lane is read in pieces, once its turn comes."""
        piece = 2 * limit // len(heads) + 4
        counts = [0] * len(heads)
        merged: list[tuple[int, bytes, int, Iterator[tuple[int, bytes]] | None]] = [
            (turn, b"", index, None) for index, (turn, _) in enumerate(heads)
        ]
        heapq.heapify(merged)
        left = limit
        while merged and left > 0:
            _, _, index, turns = merged[0]
            lane = heads[index][1]
            if turns is None:
                turns = self._turns(lane, piece)
            elif self._gates.room(lane, 1):
                self._gates.use(lane, 1)
                counts[index] += 1
                left -= 1
            else:
                heapq.heappop(merged)
                continue
            following = next(turns, None)
            if following is None:
                heapq.heappop(merged)
            else:
                heapq.heapreplace(merged, (*following, index, turns))
        for index, count in enumerate(counts):
            self._gates.use(heads[index][1], -count)  # counted again when they are taken
        return [(lane, counts[index]) for index, (_, lane) in enumerate(heads) if counts[index]]

    def _turns(self, lane: OpenLane, piece: int) -> Iterator[tuple[int, bytes]]:
        """(turn, fence) of a lane's jobs in order. Each piece is read to its end: no cursor stays open across the deletes."""
        turn, fence = -1, b""
        while True:
            rows = self._transaction.execute(_TURNS, (lane.number, turn, fence, self._worker, piece)).fetchall()
            yield from rows
            if len(rows) < piece:
                return
            turn, fence = rows[-1]

    def _take(self, lane: OpenLane, limit: int) -> list[Row]:
        """Move the first jobs of a lane from ready to running. Per job: 1.4 µs to read, 1.4 to write, 0.5 to delete; carried back
        row by row (executemany) the write alone is 3.9."""
        if limit <= 0:
            return []
        execute = self._transaction.execute
        rows: list[Row] = execute(_TAKE, (lane.number, self._worker, limit)).fetchall()
        if not rows:
            return rows
        fence, turn = rows[-1][:2]
        settings, now = lane.settings, self._transaction.now
        beat = settings.heartbeat_timeout_seconds
        # Facts that matter here are rare; where no job has any, the second visit to the facts is spared (0.5 µs a job).
        statement = _MOVE if any(row[5] is not None or row[6] is not None for row in rows) else _MOVE_PLAIN
        gate = lane.queue if settings.is_gated else None
        head = (lane.number, turn, fence, self._worker)
        moved = execute(statement, (*head, self._incarnation, now, settings.timeout_seconds, beat, gate)).rowcount
        gone = execute(_LEAVE, head).rowcount
        if not len(rows) == moved == gone:
            raise AssertionError(f"lane {lane.number}: read {len(rows)} jobs, moved {moved}, removed {gone}")
        self._gates.use(lane, len(rows))
        return rows

    def _claimed(self, lane: OpenLane, rows: list[Row]) -> list[tuple[int, bytes, Claimed]]:
        """(turn, fence, job): as what the caller gets, and by what it is sorted."""
        queue, kind, priority, settings, now = lane.queue_name, lane.job_type, lane.priority, lane.settings, self._transaction.now
        beat = settings.heartbeat_timeout_seconds
        return [
            (
                turn,
                fence,
                Claimed(
                    uuid_from_bytes(fence),
                    queue,
                    kind,
                    b"null" if payload is None else payload.encode(),
                    attempt + 1,
                    max_attempts,
                    crashes,
                    priority,
                    settings.timeout_seconds if timeout is None else timeout,
                    beat,
                    None if deadline is None else (deadline - now) / SECOND,
                    (now - turn) / SECOND if now > turn else 0.0,
                    settings,
                    () if tags is None else codec.texts(tags) or (),
                    trace,
                ),
            )
            for fence, turn, attempt, max_attempts, crashes, timeout, deadline, tags, trace, payload in rows
        ]
