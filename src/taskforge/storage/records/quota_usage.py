"""What was enqueued in the present minute, for projects whose quotas limit it."""

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from taskforge.domain.tenancy import Quota
from taskforge.ports.records import Records, Step

UNLIMITED = 2**62


class Exceeded(msgspec.Struct, frozen=True):
    """A quota that has no room in this minute, and when the next one begins."""

    quota: str
    until: datetime


class _Used(msgspec.Struct, frozen=True):
    jobs: int
    bytes: int


class _Key(msgspec.Struct, frozen=True):
    key: str


class QuotaUsage:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def reserve(
        self, project: int, jobs: int, size: int, quota: Quota
    ) -> datetime | Exceeded:
        """Count jobs about to be enqueued against the present minute, which comes back when there
        is room."""
        now = await self._records.now()
        minute = now.replace(second=0, microsecond=0)
        most_jobs = quota.enqueue_per_minute or UNLIMITED
        most_bytes = quota.payload_bytes_per_minute or UNLIMITED
        used = _Used(0, 0)
        if jobs <= most_jobs and size <= most_bytes:
            values = (project, minute, jobs, size, most_jobs, most_bytes)
            answers = await self._records.write([Step("reserve_quota", values)])
            if answers[0]:
                return minute
            found = await self._records.look(_Used, "quota_usage", project, minute)
            if not found:
                # another server has begun the next minute
                return await self.reserve(project, jobs, size, quota)
            used = found[0]
        name = "enqueue_per_minute" if used.jobs + jobs > most_jobs else "payload_bytes_per_minute"
        return Exceeded(name, minute + timedelta(minutes=1))

    async def release(self, project: int, minute: datetime, jobs: int, size: int) -> None:
        """What was reserved in this minute and not enqueued is no part of it any more."""
        await self._records.write([Step("release_quota", (project, minute, jobs, size))])

    async def known_keys(self, project: int, keys: Collection[str]) -> frozenset[str]:
        """Which of these idempotency keys stand for a job: jobs that would be enqueued again count
        once."""
        now = await self._records.now()
        found = await self._records.look(_Key, "known_keys", project, now, list(keys))
        return frozenset(one.key for one in found)
