"""Opening and closing an engine, and the clock that rules."""

from datetime import datetime
from typing import Protocol


class Lifecycle(Protocol):
    # Whether calls run beside each other, or one after the other and sharing commits.
    side_by_side: bool
    home: int  # the project that whoever opened it works in

    async def open(self, *, migrate: bool = True) -> None: ...
    async def close(self) -> None: ...
    async def now(self) -> datetime: ...  # also the health check: a cheap round trip to the store


class StoreLifecycle(Lifecycle, Protocol):
    # Whether the database lets this connection past every wall that it keeps between projects.
    async def is_superuser(self) -> bool: ...

    # It was set back to an earlier time: leases, fences and terms that were handed out since then
    # are over.
    async def mark_restored(self) -> None: ...
