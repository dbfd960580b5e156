"""Claims as workers make them, and the offers that idle workers leave with the writer.

An idle worker leaves an offer: a claim to be run in the transaction that makes the next job, whose
commit is then that of both. Its handler starts while the disk still works: the commit is without
the fsync, the offer is answered, then the log is forced and the callers hear that theirs is
durable. A power cut in between ends worker and handler too, for a job that nobody was told of.
Another process can see such a commit before it is on disk; so whoever answers from what is there,
and writes nothing, forces the log too.
"""

import asyncio
from uuid import UUID

import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.job import Claimed
from taskforge.storage.event_sums import EventSums
from taskforge.storage.sqlite import claims
from taskforge.storage.sqlite.calls import Call
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.signals import Signals
from taskforge.storage.sqlite.writer import Writer


class Offers:
    def __init__(self, writer: Writer, signals: Signals, tell_seconds: float | None) -> None:
        self._writer = writer
        self.sums = EventSums(self._tell, tell_seconds)
        self._signals = signals
        self._standing: dict[UUID, Call] = {}  # by incarnation

    async def claim(self, claim: Claim) -> list[Claimed]:
        claimed: list[Claimed] = []
        wait: float | None = None
        offer = self._standing.get(claim.incarnation)
        if offer is not None:
            taken_up = not self._writer.retract(offer)
            if taken_up and not offer.future.done():
                # whoever is cancelled meanwhile leaves it to the next claim
                await asyncio.wait([offer.future])
            self._standing.pop(claim.incarnation, None)
            if taken_up:
                claimed, wait = offer.future.result()
        if not claimed and claim.limit > 0:
            claimed, wait = await self._writer.submit(
                lambda transaction: claims.claim(transaction, claim, self.sums),
                lazy=not claim.remote,
            )
        if wait is not None:
            self._signals.wake_in(wait)
        elif claim.standing and len(claimed) < claim.limit:
            self._offer(claim, claim.limit - len(claimed))
        return claimed

    async def _tell(self, sums: str) -> None:
        """With whatever is written next."""
        await self._writer.submit(
            lambda one: one.execute(sql("tell_sums"), (sums, one.now)), lazy=True
        )

    def _offer(self, claim: Claim, limit: int) -> None:
        # When it is taken up, what is being reported now has long been.
        rest = msgspec.structs.replace(claim, limit=limit, reporting=0)
        offer = self._writer.offer(
            lambda transaction: claims.claim(transaction, rest, self.sums), otherwise=([], None)
        )
        offer.future.add_done_callback(lambda _: self._signals.call_now())
        self._standing[claim.incarnation] = offer
