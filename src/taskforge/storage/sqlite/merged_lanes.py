"""Merges the jobs of several lanes of one tier by turn, reading no further than they count."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from taskforge.storage.catalog import OpenLane, Taker
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.gates import Gates
from taskforge.storage.sqlite.transaction import Transaction

Stand = tuple[int, bytes, int]
"""Where a job stands: turn, fence, and the index of its lane."""
LAST_FENCE = b"\xff" * 16


class MergedLanes:
    """The jobs of lanes as one claim of one worker reads them."""

    def __init__(self, transaction: Transaction, taker: Taker, gates: Gates) -> None:
        self._execute = transaction.execute
        self._now = transaction.now
        self._worker = taker.worker.hex
        self._incarnation_hex = taker.incarnation.hex
        self._project = taker.project
        self._gates = gates

    def head_behind(self, lane: OpenLane, turn: int) -> int | None:
        """The turn of the first job of a lane behind this one."""
        row = self._execute(sql("turns"), self._behind(lane, turn, LAST_FENCE, 1)).fetchone()
        return None if row is None else int(row[0])

    def merge(self, heads: list[tuple[int, OpenLane]], limit: int) -> list[Stand]:
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
        """(turn, fence) of a lane's jobs in order, from this turn on, as far as they are meant and
        no more than it is their turn to give. Each piece is read to its end: no cursor stays open
        across the deletes."""
        fence, left = b"", lane.most
        while left is None or left > 0:
            size = size if left is None else min(size, left)
            rows = self._execute(sql("turns"), self._behind(lane, turn, fence, size)).fetchall()
            if lane.until is not None:
                rows = [row for row in rows if row[0] <= lane.until]
            left = None if left is None else left - len(rows)
            if rows:
                yield rows
            if len(rows) < size:
                return
            turn, fence = rows[-1]

    def _behind(self, lane: OpenLane, turn: int, fence: bytes, most: int) -> tuple[Any, ...]:
        return (
            lane.number,
            turn,
            fence,
            self._worker,
            most,
            self._now,
            self._incarnation_hex,
            self._project,
            lane.key,
        )


def _may_be_among(most: int, stands: list[Stand], turn: int, fence: bytes) -> bool:
    """Whether something behind this turn and fence may be among the first `most`."""
    return len(stands) < most or (most > 0 and (turn, fence) < stands[most - 1][:2])
