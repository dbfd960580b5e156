"""What an organization keeps in the store, against its ceiling `stored_bytes`.

The leader counts it, in pieces (`control/byte_counter.py`); whatever comes in through a server is
reserved in the organization's row before it is stored, so that all servers keep to one ceiling.
Each takes a slice of it at a time and spends that in memory: the row is not written at every
enqueue. What was removed makes room with the next count."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

from taskforge.domain.tenancy import CeilingReached, Organization
from taskforge.storage.records.stored_bytes import StoredByteRecords

SLICES = 200
# What was reserved before a count is not known after it, spent or not.
SLICE_SECONDS = 10.0


class ByteSlice:
    """What this server has left of what it reserved."""

    def __init__(self, size: int, ends_at: float) -> None:
        self.left = size
        self.ends_at = ends_at

    def give_back(self, size: int) -> None:
        self.left += size


class StoredBytes:
    def __init__(
        self, records: StoredByteRecords, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = records
        self._monotonic = monotonic
        self._slices: dict[int, ByteSlice] = {}
        self._reserving: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def add(self, owner: Organization, size: int) -> ByteSlice | None:
        """Where it was taken from; None without a ceiling; `CeilingReached` where there is no
        room."""
        most = owner.ceiling.stored_bytes
        if most is None or not size:
            return None
        found = self._spend(owner.number, size)
        if found is not None:
            return found
        async with self._reserving[owner.number]:
            # others who waited for the same may have left enough
            return self._spend(owner.number, size) or await self._reserve(owner.number, most, size)

    def _spend(self, organization: int, size: int) -> ByteSlice | None:
        found = self._slices.get(organization)
        if found is None or self._monotonic() >= found.ends_at or size > found.left:
            return None
        found.left -= size
        return found

    async def _reserve(self, organization: int, most: int, size: int) -> ByteSlice:
        for asked in (max(size, most // SLICES), size):
            if await self._records.reserve(organization, asked):
                made = ByteSlice(asked - size, self._monotonic() + SLICE_SECONDS)
                self._slices[organization] = made
                return made
        raise CeilingReached("stored_bytes", most)
