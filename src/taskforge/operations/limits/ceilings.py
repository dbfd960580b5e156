"""What comes in for an organization, whichever way: jobs, payloads, results, log lines. An
organization without a ceiling costs nothing here."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from taskforge.domain.errors import Invalid, StoreUnavailable, TaskForgeError
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import Outcome, Success
from taskforge.domain.tenancy import CeilingReached, QuotaExceeded
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.operations.limits.ceiling_rates import CeilingRates
from taskforge.operations.limits.stored_bytes import StoredBytes
from taskforge.storage.records.ceiling_usage import CeilingUsage
from taskforge.storage.records.stored_bytes import StoredByteRecords


class Unused(msgspec.Struct):
    """What was taken and is not used after all."""

    jobs: int = 0
    size: int = 0


class Ceilings:
    def __init__(
        self, usage: CeilingUsage, stored_bytes: StoredByteRecords, tenants: Tenants
    ) -> None:
        self._tenants = tenants
        self._rates = CeilingRates(usage)
        self._stored = StoredBytes(stored_bytes)

    @asynccontextmanager
    async def room(self, organization: int, jobs: int, size: int) -> AsyncIterator[Unused]:
        """Take room for so many jobs and bytes. What the block says is unused is given back, all of
        it when it is refused."""
        owner = await self._tenants.organization(organization)
        kept = await self._stored.add(owner, size)
        unused, spent = Unused(jobs, size), None
        try:
            spent = await self._rates.spend(owner, jobs, size)
            unused.jobs, unused.size = 0, 0
            yield unused
        except StoreUnavailable:
            raise  # what was sent may be stored all the same
        except TaskForgeError:
            unused.jobs, unused.size = jobs, size
            raise
        finally:
            if kept is not None:
                kept.give_back(unused.size)
            if spent is not None:
                spent.give_back(unused.jobs, unused.size)

    async def is_limited(self, organization: int) -> bool:
        ceiling = (await self._tenants.organization(organization)).ceiling
        return ceiling.limits_rates or ceiling.stored_bytes is not None

    async def admit_lines(self, project: int, lines: Sequence[NewLine]) -> None:
        """Log lines about to be stored; raises when there is no room for them."""
        organization = (await self._tenants.numbered(project)).organization
        if await self.is_limited(organization):
            size = sum(len(line.message.encode()) + len(line.metadata or b"") for line in lines)
            async with self.room(organization, 0, size):
                pass

    async def admit_outcomes(self, project: int, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """The outcomes, without their results where there is no room for those: an ending is never
        refused."""
        organization = (await self._tenants.numbered(project)).organization
        if not await self.is_limited(organization):
            return outcomes
        return [await self._admit_outcome(organization, outcome) for outcome in outcomes]

    async def _admit_outcome(self, organization: int, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Success) or outcome.result is None:
            return outcome
        size = len(outcome.result)
        try:
            async with self.room(organization, 0, size):
                return outcome
        except (CeilingReached, QuotaExceeded, Invalid) as error:
            return Success(None, f"its result of {size:,} bytes was dropped: {error}")
