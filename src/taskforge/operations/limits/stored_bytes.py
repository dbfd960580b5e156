"""What an organization keeps in the store, against its ceiling `stored_bytes`.

A count looks at every row of the organization, so nobody waits for it for long, and there is a rest
behind it; in between, what comes through this server is added. What was removed, or came through
other servers, shows with the next count."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.tenancy import CeilingReached, Organization
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.storage.records.ceiling_usage import CeilingUsage

COUNT_SECONDS = 30.0
FULL_SECONDS = 2.0  # at the ceiling it is looked again soon: something may have been removed
FIRST_SECONDS = 0.5
REST = 20  # times as long as a count took, until the next


class KeptBytes:
    def __init__(self) -> None:
        self.bytes = 0
        self.since = 0  # came since the count that is under way began, which may have missed it
        self.counting: asyncio.Task[None] | None = None
        self.tried_at: float | None = None
        self.took = 0.0


class StoredBytes:
    def __init__(
        self,
        usage: CeilingUsage,
        tenants: Tenants,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._usage = usage
        self._tenants = tenants
        self._monotonic = monotonic
        self._kept: defaultdict[int, KeptBytes] = defaultdict(KeptBytes)

    async def add(self, owner: Organization, size: int) -> KeptBytes | None:
        """Where it was counted; None without a ceiling; `CeilingReached` where there is no room."""
        most = owner.ceiling.stored_bytes
        if most is None or not size:
            return None
        kept = self._kept[owner.number]
        await self._count_if_due(owner, kept, is_full=kept.bytes + size > most)
        if kept.bytes + size > most:
            raise CeilingReached("stored_bytes", most)
        kept.bytes += size
        kept.since += size
        return kept

    async def _count_if_due(self, owner: Organization, kept: KeptBytes, *, is_full: bool) -> None:
        rest = max(FULL_SECONDS if is_full else COUNT_SECONDS, REST * kept.took)
        is_first = kept.tried_at is None
        if kept.counting is None and (
            kept.tried_at is None or self._monotonic() - kept.tried_at > rest
        ):
            kept.counting = asyncio.create_task(self._count(owner, kept))
        if kept.counting is not None and (is_first or is_full):
            await asyncio.wait([kept.counting], timeout=FIRST_SECONDS)

    async def _count(self, owner: Organization, kept: KeptBytes) -> None:
        began, kept.since = self._monotonic(), 0
        try:
            with suppress(StoreUnavailable):  # which whoever enqueues meets, too
                projects = await self._tenants.projects_of(owner.number)
                found = await self._usage.stored_bytes([one.number for one in projects])
                kept.bytes = found + kept.since
        finally:
            kept.took, kept.tried_at, kept.counting = self._monotonic() - began, began, None
