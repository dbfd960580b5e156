"""Claims from a source whose claims wait for jobs themselves: one waits at any time, and a larger
one takes its place when slots come free. The source ends the older one, whose answer is still
listened to."""

import asyncio
import contextlib
import logging
from typing import Any
from uuid import UUID

from taskforge.domain.errors import StoreUnavailable, TaskForgeError
from taskforge.domain.job import Claimed
from taskforge.worker.fetcher import ANSWER_SECONDS, GATHER_SECONDS, Fetcher

logger = logging.getLogger("taskforge.worker")


class WaitingFetcher(Fetcher):
    async def run(self, incarnation: UUID) -> None:
        # those that wait for an answer, and how many jobs each asked for
        claims: dict[asyncio.Future[list[Claimed]], int] = {}
        newest: asyncio.Future[list[Claimed]] | None = None
        try:
            while True:
                self._executor.freed.clear()
                free = min(self._executor.free, self._most)
                if not self._may_claim():
                    if claims:
                        await self._end_claim(incarnation)
                # Twice as many, not one more: handlers that end one by one must not each bring a
                # new claim.
                elif free > 0 and (newest is None or free >= 2 * claims[newest]):
                    await self._report_first()
                    newest = asyncio.ensure_future(
                        self._source.claim(incarnation, free, self._executor.reporting)
                    )
                    claims[newest] = free
                await self._news(claims)
                for done in [one for one in claims if one.done()]:
                    wanted = claims.pop(done)
                    newest = None if done is newest else newest
                    try:
                        jobs = done.result()
                    except StoreUnavailable as error:
                        logger.debug("cannot claim jobs, trying again: %s", error)
                        await asyncio.sleep(self._patience.wait(error.asked_for))
                        continue
                    self._patience.forget()
                    if jobs:
                        self._executor.add(jobs)
                    if len(jobs) >= wanted:
                        # More is waiting than fits: gather room for a moment, so that a claim
                        # brings many jobs instead of one.
                        await self._room(self._gather, GATHER_SECONDS)
        finally:
            if claims:
                await self._collect(incarnation, claims)

    async def _news(self, claims: dict[asyncio.Future[list[Claimed]], int]) -> None:
        """Until an answer comes, a slot is free, or it is time to look whether claiming is still
        allowed."""
        freed = asyncio.ensure_future(self._executor.freed.wait())
        awaited: list[asyncio.Future[Any]] = [*claims, freed]
        try:
            await asyncio.wait(
                awaited, timeout=self._poll_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            freed.cancel()

    async def _end_claim(self, incarnation: UUID) -> None:
        with contextlib.suppress(TaskForgeError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._source.end_claim(incarnation)

    async def _collect(
        self, incarnation: UUID, claims: dict[asyncio.Future[list[Claimed]], int]
    ) -> None:
        """Jobs may have been given to us already. Nobody else knows of them, so the answers are
        asked for and waited for."""
        await self._end_claim(incarnation)
        await asyncio.wait(claims, timeout=ANSWER_SECONDS)
        for claim in claims:
            if claim.done() and not claim.cancelled() and claim.exception() is None:
                self.leftover += claim.result()
            claim.cancel()
        await asyncio.gather(*claims, return_exceptions=True)
