"""What organizations keep in the store, of those that have a ceiling of it: what the leader
counted, and what servers have reserved since."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from taskforge.ports.records import Records, Step
from taskforge.storage.records.cluster import held

# With how many columns of its key each is walked through.
PARTS = {"bytes_of_jobs": 1, "bytes_of_executions": 2, "bytes_of_logs": 3}


class Measured(msgspec.Struct, frozen=True):
    """What one row takes; the first three are its key."""

    job: UUID
    epoch: int
    number: int
    project: int
    bytes: int


class _Project(msgspec.Struct, frozen=True):
    number: int
    organization: int


class StoredByteRecords:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def reserve(self, organization: int, size: int) -> bool:
        """Whether there was room for it; then it is taken."""
        answers = await self._records.write([Step("reserve_bytes", (organization, size))])
        return bool(answers[0])

    # --- The leader's ---

    async def projects(self) -> dict[int, int]:
        """The projects whose bytes are counted, with their organizations."""
        found = await self._records.look(_Project, "projects_under_byte_ceilings")
        return {project.number: project.organization for project in found}

    async def begin_count(self, term: int) -> None:
        await self._records.write([held(term), Step("begin_byte_count")])

    async def measure(self, part: str, after: Measured, limit: int) -> list[Measured]:
        """The next rows of a part, in the order of their keys."""
        key = (after.job, after.epoch, after.number)[: PARTS[part]]
        return await self._records.look(Measured, part, *key, limit)

    async def end_count(self, term: int, totals: Mapping[int, int]) -> None:
        """By organization."""
        steps = [Step("end_byte_count", total) for total in totals.items()]
        await self._records.write([held(term), *steps])
