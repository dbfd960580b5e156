"""Holds the claims of workers that wait for jobs: no thread, no connection to the store, and no
poll of its own for each.

Workers that may take the same jobs form a group. When the store signals work, one of each group
asks; as long as that brings jobs, the next one asks too, and when it does not the whole group goes
on waiting. A thousand workers that wait for the same thing cost one claim now and then. A signal
that names projects wakes their groups alone: ten thousand tenants whose workers wait cost nothing
when a job comes for one of them.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Hashable
from functools import partial
from uuid import UUID

import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import HandBackOutcome
from taskforge.operations.work.completion import Ended, complete
from taskforge.ports.engine import Engine

logger = logging.getLogger("taskforge.api")
Take = Callable[[], Callable[[], None]]
"""Takes a place to wait, or raises; gives back how to leave it."""
POLL_SECONDS = 1.0
POLLS_PER_SECOND = 20
AT_ONCE = 4
NO_PROJECT = 0  # what names none is for all
REPORT_SECONDS = 1.0  # what was being reported when a claim came has come by then, or lost its way


class WaitingClaim:
    """A claim that waits. It is asked for without what its worker was reporting when it came: that
    may have been counted by then, and would be slots that the worker does not have."""

    __slots__ = ("future", "leave", "passed_over", "reporting", "reporting_until", "wish")

    def __init__(self, wish: Claim, leave: Callable[[], None]) -> None:
        self.wish = msgspec.structs.replace(wish, reporting=0)
        self.leave = leave  # called once, by whoever takes it out of its group
        loop = asyncio.get_running_loop()
        self.reporting = wish.reporting  # outcomes that are on the way
        self.reporting_until = loop.time() + REPORT_SECONDS
        self.passed_over = False  # while they were
        self.future: asyncio.Future[list[Claimed]] = loop.create_future()

    @property
    def is_reporting(self) -> bool:
        """Whether it may be without a slot for no other reason than that."""
        return self.reporting > 0 and asyncio.get_running_loop().time() < self.reporting_until


class Group:
    """Workers that may take the same jobs, those who wait longest first."""

    def __init__(self, project: int | None) -> None:
        self.project = project  # whose jobs those are
        self.heard = 0  # signals so far that may concern it
        self.asking = 0  # of those who came and do not wait yet
        self.leave: Callable[[], None] = lambda: None  # stops listening
        self.waiters: dict[UUID, WaitingClaim] = {}
        self.asked_at = -1  # as of which signal nothing was there
        self.serving = asyncio.Lock()


class ClaimDesk:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._groups: dict[Hashable, Group] = {}
        self._places: dict[UUID, Group] = {}
        self._newest: dict[UUID, object] = {}  # which of a worker's claims came last
        self._work = asyncio.Event()
        # Signals so far that concern every group: what was found empty before one may not be empty
        # after it.
        self._heard = 0
        self._woken: set[Group] = set()  # by signals of their own
        self._is_running = False
        self._turns = asyncio.Semaphore(AT_ONCE)
        # fences of jobs that nobody waits for, and that the store did not take back yet
        self._unwanted: set[UUID] = set()
        self._is_closed = False

    async def run(self) -> None:
        """Until cancelled: wake those who wait, by signal, and now and then without one."""
        forget = self._engine.on_work(self._hear, NO_PROJECT)
        self._is_running, served = True, self._heard - 1
        for group in self._groups.values():
            self._listen(group)
        try:
            while True:
                try:
                    # Not wait_for: in Python 3.11 it forgets that it was cancelled when the event
                    # comes in the same moment.
                    async with asyncio.timeout(
                        max(POLL_SECONDS, len(self._groups) / POLLS_PER_SECOND)
                    ):
                        await self._work.wait()
                except TimeoutError:
                    self._hear()
                self._work.clear()
                self._drop_empty()
                await self.hand_back([])
                woken = self._woken if served == self._heard else self._groups.values()
                meant = [group for group in woken if group.waiters]
                served, self._woken = self._heard, set()
                await asyncio.gather(*(self._serve(group) for group in meant))
        finally:
            forget()
            self._is_running = False
            for group in self._groups.values():
                group.leave()

    def _group(self, kind: Hashable, project: int | None) -> Group:
        """It hears signals from here on, before anybody asks the store for it."""
        group = self._groups.get(kind)
        if group is None:
            group = self._groups[kind] = Group(project)
            if self._is_running:
                self._listen(group)
        return group

    def _listen(self, group: Group) -> None:
        group.leave = self._engine.on_work(partial(self._hear_of, group), group.project)

    def _hear_of(self, group: Group) -> None:
        group.heard += 1
        self._woken.add(group)
        self._work.set()

    def _hear(self) -> None:
        self._heard += 1
        self._work.set()

    async def claim(
        self,
        wish: Claim,
        kind: Hashable,
        wait_seconds: float,
        take: Take,
        project: int | None = None,
    ) -> list[Claimed]:
        """Jobs at once, or when some come within that time. A newer claim of the same worker ends
        an older one that waits. Whoever has to wait takes a place, if there is one. `project`: that
        of the worker, where signals of others need not wake it."""
        incarnation = wish.incarnation
        self._leave(incarnation, [])
        if wish.limit == 0:
            self._newest.pop(incarnation, None)
            return []  # it only wanted to end the older one
        mine = self._newest[incarnation] = object()
        try:
            group = self._group(kind, project)
            return await self._claim(wish, group, wait_seconds, take, mine)
        finally:
            if self._newest.get(incarnation) is mine:
                del self._newest[incarnation]

    async def _claim(
        self, wish: Claim, group: Group, wait_seconds: float, take: Take, mine: object
    ) -> list[Claimed]:
        incarnation = wish.incarnation
        while group.asked_at != (heard := self._heard_by(group)):
            group.asking += 1
            try:
                jobs = await self._ask(wish)
            finally:
                group.asking -= 1
            if jobs or wait_seconds <= 0:
                return jobs
            group.asked_at = heard
        if wait_seconds <= 0 or self._is_closed or self._newest.get(incarnation) is not mine:
            return []  # also when a newer claim came while the store was asked
        waiter = group.waiters[incarnation] = WaitingClaim(wish, take())
        self._places[incarnation] = group
        try:
            async with asyncio.timeout(wait_seconds):
                return await asyncio.shield(waiter.future)
        except TimeoutError:
            self._forget(waiter)
            # Whatever was being claimed for it at this moment comes with the future, or goes back.
            return waiter.future.result() if waiter.future.done() else []
        except asyncio.CancelledError:
            self._forget(waiter)
            if waiter.future.done() and not waiter.future.exception():
                await self.hand_back(waiter.future.result())
            raise

    def close(self) -> None:
        """The server stops: whoever waits is answered, and nobody waits any more."""
        self._is_closed = True
        for incarnation in list(self._places):
            self._leave(incarnation, [])

    def hear_reports(self, incarnation: UUID, count: int) -> None:
        """So many outcomes of this worker have come: should it wait, it has slots that it did not
        have when it was asked for."""
        group = self._places.get(incarnation)
        waiter = None if group is None else group.waiters.get(incarnation)
        if waiter is not None and waiter.reporting:
            waiter.reporting = max(0, waiter.reporting - count)
            if waiter.passed_over:
                self._hear()

    async def _ask(self, wish: Claim) -> list[Claimed]:
        asking = asyncio.ensure_future(self._engine.claim(wish))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            # The caller left, or the server stops, and the store may have given jobs already:
            # nobody will come for them.
            with contextlib.suppress(Exception):
                await self.hand_back(await asking)
            raise

    async def hand_back(self, jobs: list[Claimed]) -> None:
        """Nobody is there to take them any more: another worker may, and no attempt is spent. What
        a store that is away does not take now goes with the next round; only what it fails at is
        left to its lease and its timeout."""
        self._unwanted.update(job.fence for job in jobs)
        if not self._unwanted:
            return
        fences = list(self._unwanted)
        try:
            outcome = HandBackOutcome("its worker did not wait for it")
            await complete(
                self._engine, [Ended.unspent(fence, outcome) for fence in fences], random.random
            )
        except StoreUnavailable as error:
            logger.debug("cannot hand back %d jobs, trying again: %s", len(fences), error)
            return
        except Exception:
            logger.exception(
                "cannot hand back %d jobs; they go to others when their lease or their "
                "time is over",
                len(fences),
            )
        self._unwanted.difference_update(fences)

    async def _serve(self, group: Group) -> None:
        async with group.serving, self._turns:
            passed_over: set[WaitingClaim] = set()
            while waiter := next(
                (one for one in group.waiters.values() if one not in passed_over), None
            ):
                heard = self._heard_by(group)
                try:
                    jobs = await self._ask(waiter.wish)
                except StoreUnavailable as error:
                    logger.debug("cannot claim for waiting workers, trying again: %s", error)
                    return
                except Exception as error:  # noqa: BLE001 - the one it was asked for hears of it; those behind it go on
                    self._forget(waiter)
                    if not waiter.future.done():
                        waiter.future.set_exception(error)
                    continue
                if not jobs:
                    # Should it be this one alone that may not take what is there, another asks next
                    # time.
                    if group.waiters.get(waiter.wish.incarnation) is waiter:
                        group.waiters[waiter.wish.incarnation] = group.waiters.pop(
                            waiter.wish.incarnation
                        )
                    if waiter.is_reporting:
                        waiter.passed_over = True
                        passed_over.add(waiter)
                        continue  # it says nothing of what is there for others
                    group.asked_at = heard
                    return
                if (
                    group.waiters.get(waiter.wish.incarnation) is waiter
                    and not waiter.future.done()
                ):
                    self._forget(waiter)
                    waiter.future.set_result(jobs)
                else:
                    await self.hand_back(jobs)

    def _leave(self, incarnation: UUID, jobs: list[Claimed]) -> None:
        group = self._places.pop(incarnation, None)
        waiter = None if group is None else group.waiters.pop(incarnation, None)
        if waiter is not None:
            waiter.leave()
            if not waiter.future.done():
                waiter.future.set_result(jobs)

    def _forget(self, waiter: WaitingClaim) -> None:
        group = self._places.get(waiter.wish.incarnation)
        if group is not None and group.waiters.get(waiter.wish.incarnation) is waiter:
            del group.waiters[waiter.wish.incarnation]
            del self._places[waiter.wish.incarnation]
            waiter.leave()

    def _drop_empty(self) -> None:
        for kind in [
            kind
            for kind, group in self._groups.items()
            if not group.waiters and not group.asking and not group.serving.locked()
        ]:
            self._groups.pop(kind).leave()

    def _heard_by(self, group: Group) -> int:
        return self._heard + group.heard

    @property
    def waiting(self) -> int:
        return len(self._places)
