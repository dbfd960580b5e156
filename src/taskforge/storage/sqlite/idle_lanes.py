"""Retires lanes that nobody uses any more, as `storage/lane_numbers.py` says."""

from functools import partial

from taskforge.storage.lane_numbers import KEPT_SECONDS
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.readers import Readers
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Transaction
from taskforge.storage.sqlite.writer import Writer


class SqliteIdleLanes:
    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._readers = readers
        self._writer = writer
        self._walked = 0  # the lane behind which the next look goes on

    async def retire(self, limit: int) -> int:
        """Doubt some, and remove some that were doubted long enough; how many were removed. Readers
        look for them, so that the writer is held up by nothing but what changes."""
        idle, walked = await self._readers.search(
            partial(_find_idle, behind=self._walked, limit=limit)
        )
        self._walked = walked
        empty, held = await self._readers.search(partial(_find_doubted, limit=limit))
        if not (idle or empty or held):
            return 0
        return await self._writer.submit(partial(_retire, idle=idle, empty=empty, held=held))


def _find_idle(seen: ReadSnapshot, behind: int, limit: int) -> tuple[list[int], int]:
    values = (behind, limit, seen.now - codec.span(KEPT_SECONDS))
    rows = seen.execute(sql("idle_lanes"), values).fetchall()
    walked = rows[-1][0] if len(rows) >= limit else 0
    return [number for number, is_idle in rows if is_idle], walked


def _find_doubted(seen: ReadSnapshot, limit: int) -> tuple[list[int], list[int]]:
    """Those that hold nothing, and those that do."""
    values = (seen.now - codec.span(KEPT_SECONDS), limit)
    rows = seen.execute(sql("doubted_lanes"), values).fetchall()
    empty = [number for number, is_held in rows if not is_held]
    return empty, [number for number, is_held in rows if is_held]


def _retire(transaction: Transaction, idle: list[int], empty: list[int], held: list[int]) -> int:
    now = transaction.now
    transaction.execute(sql("doubt_lanes"), (codec.json(idle), now))
    transaction.execute(sql("keep_lanes"), (codec.json(held), now))
    cutoff = now - codec.span(KEPT_SECONDS)
    return transaction.execute(sql("retire_lanes"), (codec.json(empty), cutoff)).rowcount
