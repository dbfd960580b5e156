"""Stands for election, and runs what only the leader runs for as long as its lease is trusted."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.node import NewNode
from taskforge.domain.term import RENEW, Deposed, Watch, Wish, trusted_until, watch, wish
from taskforge.services import ServiceHealth, end_tasks
from taskforge.storage.records.cluster import ClusterRecords, SeenReign

logger = logging.getLogger("taskforge.cluster")
# Time that a suspended machine does not lose, where the system has such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)
RETRY = 0.05  # of the lease: how soon a renewal that failed is tried again


def steady_seconds() -> float:
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Term:
    """One term of this process. What runs in it asks before it acts, and writes under its
    number."""

    def __init__(self, number: int, until: float, clock: Callable[[], float]) -> None:
        self.number = number
        self.until = until
        self._clock = clock

    @property
    def seconds_left(self) -> float:
        return self.until - self._clock()

    def check(self) -> None:
        """Raises `Deposed` once the lease is no longer trusted: another may lead."""
        if self.seconds_left <= 0:
            raise Deposed(self.number)


class LeaderService(Protocol):
    name: str

    async def run(self, term: Term) -> None: ...

    def health(self) -> list[ServiceHealth]: ...


class Leader:
    name = "leader"

    def __init__(
        self,
        cluster: ClusterRecords,
        node: NewNode,
        services: Sequence[LeaderService],
        *,
        lease_seconds: float,
        clock: Callable[[], float] = steady_seconds,
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._services = services
        self._lease = lease_seconds
        self._clock = clock
        self._watch: Watch | None = None
        self._looked_at: float | None = None
        self.term: Term | None = None  # while it leads

    async def run(self) -> None:
        """Until cancelled; then it resigns, so that another need not wait for its lease."""
        while True:
            try:
                term = await self._stand()
                if term is not None:
                    await self._lead(term)
                    continue
            except StoreUnavailable:
                pass
            except Exception:  # jobs run without a leader: it ends no process
                logger.exception("standing for election failed, and is tried again")
            await asyncio.sleep(RENEW * self._lease)

    async def run_once(self) -> Term | None:
        """One look; the term, if it took one."""
        return await self._stand()

    def health(self) -> list[ServiceHealth]:
        """It is late when it has not heard from the store for a whole lease. While it leads, with
        what only the leader runs."""
        passed = None if self._looked_at is None else self._clock() - self._looked_at
        own = ServiceHealth(self.name, passed, is_late=(passed or 0.0) > self._lease)
        if self.term is None:
            return [own]
        return [own, *(health for service in self._services for health in service.health())]

    # --- Standing ---

    async def _stand(self) -> Term | None:
        """Look once, and take the lease if nobody has it."""
        seen = await self._cluster.look(self._node)
        self._looked_at = now = self._clock()
        self._watch = watch(self._watch, seen.reign, now)
        if wish(self._watch, now, handicapped=self._is_handicapped(seen)) is not Wish.TAKE:
            return None
        asked_at = self._clock()
        number = await self._cluster.take(self._node, seen.reign, self._lease)
        self._watch = None
        if number is None:
            return None
        return Term(number, trusted_until(asked_at, self._lease), self._clock)

    def _is_handicapped(self, seen: SeenReign) -> bool:
        return not self._node.is_server and seen.servers > 0

    # --- Leading ---

    async def _lead(self, term: Term) -> None:
        logger.info("%s leads: term %d", self._node.name, term.number)
        self.term = term
        running = [
            asyncio.create_task(self._serve(service, term), name=service.name)
            for service in self._services
        ]
        is_over = False
        try:
            is_over = await self._keep(term)
        finally:
            self.term = None
            await end_tasks(*running)
            if not is_over:
                # Only a hint for the others, who else wait for the lease to run out. Nothing acts
                # any more, so it does not matter when it arrives.
                with contextlib.suppress(StoreUnavailable, TimeoutError):
                    async with asyncio.timeout(RENEW * self._lease):
                        await self._cluster.resign(self._node.id, term.number)

    async def _keep(self, term: Term) -> bool:
        """Renew the lease for as long as that works, and give it up to a server that is there;
        whether the term is over by itself."""
        rest = RENEW
        while True:
            await asyncio.sleep(min(rest * self._lease, max(0.0, term.seconds_left)))
            if term.seconds_left <= 0:
                logger.warning("term %d cannot be renewed in time and ends", term.number)
                return True
            asked_at = self._clock()
            try:
                async with asyncio.timeout(term.seconds_left):
                    await self._cluster.renew(self._node.id, term.number)
                    term.until = trusted_until(asked_at, self._lease)
                    seen = await self._cluster.look(self._node)
                    self._looked_at = self._clock()
            except Deposed:
                logger.warning("term %d is over: another leads", term.number)
                return True
            except (StoreUnavailable, TimeoutError):
                rest = RETRY
                continue
            rest = RENEW
            if self._is_handicapped(seen):
                logger.info("term %d ends: a server is there to lead", term.number)
                return False

    async def _serve(self, service: LeaderService, term: Term) -> None:
        """One that fails begins again, as long as the term lasts."""
        rest = RENEW * self._lease
        while True:
            try:
                await service.run(term)
                logger.error("%s ended by itself and begins again", service.name)
            except Deposed:
                return
            except StoreUnavailable:
                pass  # who renews the lease meets it too
            except Exception:
                logger.exception("%s failed and begins again", service.name)
            await asyncio.sleep(rest)
