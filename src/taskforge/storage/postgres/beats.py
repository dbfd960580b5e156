"""Writes down what running jobs tell: that they live, how far they are, what they log."""

from collections.abc import Sequence

from taskforge.domain.execution import Beat, merge_beats
from taskforge.domain.ids import epoch_of
from taskforge.domain.log import NewLine, split
from taskforge.domain.outcome import Lost
from taskforge.storage.postgres.connections import PostgresConnections


class PostgresBeats:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections

    async def beat(self, beats: Sequence[Beat]) -> list[Lost]:
        merged = merge_beats(beats)
        if not merged:
            return []
        rows = await self._connections.fetch(
            "beat",
            [beat.fence for beat in merged],
            [beat.started_seconds_ago for beat in merged],
            [beat.progress for beat in merged],
            [beat.message for beat in merged],
            self._connections.bound_now(),
            [beat.alive for beat in merged],
        )
        return [Lost(row["fence"]) for row in rows]

    async def log(self, lines: Sequence[NewLine]) -> list[Lost]:
        pieces = [piece for line in lines for piece in split(line)]
        if not pieces:
            return []
        rows = await self._connections.fetch(
            "add_log",
            [piece.fence for piece in pieces],
            [epoch_of(piece.fence) for piece in pieces],
            [int(piece.level) for piece in pieces],
            [piece.message for piece in pieces],
            [None if piece.metadata is None else piece.metadata.decode() for piece in pieces],
            [piece.seconds_ago for piece in pieces],
            self._connections.bound_now(),
        )
        return [Lost(row["fence"]) for row in rows]
