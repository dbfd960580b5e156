"""What has happened, in the order in which it was committed."""

from typing import Protocol

from taskforge.domain.query import Events


class EventLog(Protocol):
    # Behind this cursor; None: from now on.
    async def events(self, after: str | None, limit: int) -> Events: ...
