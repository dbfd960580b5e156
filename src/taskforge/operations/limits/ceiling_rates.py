"""What an organization may do in a minute, in all its projects and through all servers.

One row an organization counts it. Each server takes a slice of the minute at a time and spends it
in memory: the row is written some twenty times a minute and server, not at every enqueue. What a
server took and did not spend is lost with the minute, at most a slice of it."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta

from taskforge.domain.errors import Invalid
from taskforge.domain.tenancy import Ceiling, Organization, RateCeilingReached
from taskforge.storage.records.ceiling_usage import UNLIMITED, CeilingUsage, Taken, most_of

SLICES = 20
MINUTE = timedelta(minutes=1)


class RateSlice:
    """What this server has left of a minute that it took."""

    def __init__(self, minute: datetime, ends_at: float, taken: Taken) -> None:
        self.minute = minute
        self.ends_at = ends_at
        self.jobs = taken.jobs
        self.bytes = taken.bytes

    def spend(self, jobs: int, size: int) -> bool:
        if jobs > self.jobs or size > self.bytes:
            return False
        self.jobs -= jobs
        self.bytes -= size
        return True

    def give_back(self, jobs: int, size: int) -> None:
        """What was not used after all; it does no harm if the minute is over."""
        self.jobs += jobs
        self.bytes += size


class CeilingRates:
    def __init__(
        self, usage: CeilingUsage, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._usage = usage
        self._monotonic = monotonic
        self._slices: dict[int, RateSlice] = {}
        self._taking: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def spend(self, owner: Organization, jobs: int, size: int) -> RateSlice | None:
        """The slice that it was spent of, None without a ceiling; `RateCeilingReached` when the
        minute has no room for it."""
        ceiling = owner.ceiling
        if not ceiling.limits_rates or not (jobs or size):
            return None
        found = self._spend(owner.number, jobs, size)
        if found is not None:
            return found
        async with self._taking[owner.number]:
            # others who waited for the same may have left enough
            return self._spend(owner.number, jobs, size) or await self._take(
                owner.number, ceiling, jobs, size
            )

    def _spend(self, organization: int, jobs: int, size: int) -> RateSlice | None:
        found = self._slices.get(organization)
        if found is None or self._monotonic() >= found.ends_at or not found.spend(jobs, size):
            return None
        return found

    async def _take(self, organization: int, ceiling: Ceiling, jobs: int, size: int) -> RateSlice:
        most_jobs, most_bytes = most_of(ceiling)
        _check_possible(ceiling, jobs, size)
        now, at = await self._usage.now(), self._monotonic()
        minute = now.replace(second=0, microsecond=0)
        ends_at = at + (minute + MINUTE - now).total_seconds()
        least = Taken(_limited(jobs, most_jobs), _limited(size, most_bytes))
        ample = Taken(_ample(least.jobs, most_jobs), _ample(least.bytes, most_bytes))
        for asked in (ample, least):
            if await self._usage.take(organization, minute, asked, ceiling):
                made = RateSlice(minute, ends_at, _in_hand(asked, most_jobs, most_bytes))
                kept = self._slices.get(organization)
                if kept is not None and kept.minute == minute:
                    made.give_back(kept.jobs, kept.bytes)
                self._slices[organization] = made
                made.spend(jobs, size)
                return made
        taken = await self._usage.taken(organization, minute)
        is_by_jobs = taken.jobs + jobs > most_jobs
        name = "enqueue_per_minute" if is_by_jobs else "bytes_per_minute"
        raise RateCeilingReached(name, most_jobs if is_by_jobs else most_bytes, ends_at - at)


def _limited(asked: int, most: int) -> int:
    """What the store must count of it."""
    return 0 if most == UNLIMITED else asked


def _ample(asked: int, most: int) -> int:
    return 0 if most == UNLIMITED else max(asked, most // SLICES)


def _in_hand(taken: Taken, most_jobs: int, most_bytes: int) -> Taken:
    return Taken(
        UNLIMITED if most_jobs == UNLIMITED else taken.jobs,
        UNLIMITED if most_bytes == UNLIMITED else taken.bytes,
    )


def _check_possible(ceiling: Ceiling, jobs: int, size: int) -> None:
    for field, name, asked, what in (
        ("jobs", "enqueue_per_minute", jobs, f"are {jobs:,} in one call"),
        ("body", "bytes_per_minute", size, f"takes {size:,} bytes in one call"),
    ):
        most = getattr(ceiling, name)
        if most is not None and asked > most:
            raise Invalid(
                field,
                f"{what}, more than the organization's ceiling {name} of {most:,} ever allows",
                "send less",
            )
