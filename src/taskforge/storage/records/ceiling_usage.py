"""What organizations have taken of what their ceilings allow of the present minute."""

from datetime import datetime

import msgspec

from taskforge.domain.tenancy import Ceiling
from taskforge.ports.records import Records, Step

UNLIMITED = 2**62


class Taken(msgspec.Struct, frozen=True):
    jobs: int
    bytes: int


class CeilingUsage:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def now(self) -> datetime:
        return await self._records.now()

    async def take(
        self, organization: int, minute: datetime, asked: Taken, ceiling: Ceiling
    ) -> bool:
        """Whether the minute had room for it; then it is taken."""
        most_jobs, most_bytes = most_of(ceiling)
        values = (organization, minute, asked.jobs, asked.bytes, most_jobs, most_bytes)
        answers = await self._records.write([Step("take_of_minute", values)])
        return bool(answers[0])

    async def taken(self, organization: int, minute: datetime) -> Taken:
        found = await self._records.look(Taken, "taken_of_minute", organization, minute)
        return found[0] if found else Taken(0, 0)


def most_of(ceiling: Ceiling) -> tuple[int, int]:
    """Jobs and bytes in a minute."""
    return (
        UNLIMITED if ceiling.enqueue_per_minute is None else ceiling.enqueue_per_minute,
        UNLIMITED if ceiling.bytes_per_minute is None else ceiling.bytes_per_minute,
    )
