"""The lease keeper's own life, in this process: by when it says that the lease is lost."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.access import Throttled
from taskforge.domain.errors import StoreFault, StoreUnavailable, StoreUnsuitable
from taskforge.domain.worker import Renewed
from taskforge.settings import Settings
from taskforge.worker import lease
from taskforge.worker.processes import this_process

LEASE = 1.5


class Away:
    """A store that renews once, after a while, and then cannot be reached."""

    def __init__(self, answers_after: float) -> None:
        self._answers_after = answers_after
        self._asked = 0
        self.sent_at = time.monotonic()  # when the last renewal was sent that came through; before there is one, the beginning

    async def open(self, *, migrate: bool) -> None: ...

    async def close(self) -> None: ...

    async def renew(self, *_: Any) -> Renewed:
        self._asked += 1
        if self._asked > 1:
            raise StoreUnavailable("away")
        sent_at = time.monotonic()
        await asyncio.sleep(self._answers_after)
        self.sent_at = sent_at
        return Renewed(drain=False)


@asynccontextmanager
async def pipes() -> AsyncIterator[int]:
    """From and to a worker, as a keeper has them: what is read from the one given is what it said."""
    (stdin, to_keeper), (from_keeper, stdout) = os.pipe(), os.pipe()
    with os.fdopen(stdin) as heard, os.fdopen(stdout, "w") as told, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", heard)
        patch.setattr(sys, "stdout", told)
        try:
            yield from_keeper
        finally:
            os.close(to_keeper)
            os.close(from_keeper)


async def hand_nothing_back(*_: object) -> None: ...


@pytest.mark.parametrize("answers_after", [0.0, 0.6])
async def test_a_lease_is_given_up_before_it_ends_counted_from_when_its_renewal_was_sent(answers_after: float) -> None:
    """The store counts from then, not from when its answer came: a moment later others may have the jobs."""
    store: Any = Away(answers_after * LEASE)
    charge = lease.Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(4 * LEASE), pipes() as said:
        assert await lease.keep(lambda: store, charge, hand_nothing_back) is False
        assert time.monotonic() - store.sent_at < LEASE
        *_, last = os.read(said, lease.WORD_BYTES).splitlines()
    assert msgspec.json.decode(last, type=lease.Word).lost is not None


class Frozen(Away):
    """One that renews once and then does not answer."""

    async def renew(self, *_: Any) -> Renewed:
        if self._asked:
            await asyncio.Event().wait()
        return await super().renew()


async def test_a_lease_is_given_up_before_it_ends_though_the_store_says_nothing() -> None:
    store: Any = Frozen(0.0)
    charge = lease.Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(4 * LEASE), pipes() as said:
        assert await lease.keep(lambda: store, charge, hand_nothing_back) is False
        assert time.monotonic() - store.sent_at < LEASE
        *_, last = os.read(said, lease.WORD_BYTES).splitlines()
    assert msgspec.json.decode(last, type=lease.Word).away


async def test_a_keeper_that_stood_still_itself_asks_once_more() -> None:
    """As on a machine that was frozen: then everybody stood still, and the store bridges it."""
    asked: list[float] = []

    class Thawed(Away):
        async def renew(self, *_: Any) -> Renewed:
            asked.append(time.monotonic())
            if len(asked) == 2:
                time.sleep(1.5 * LEASE)  # nothing of this process runs
            if len(asked) in (1, 3):
                return Renewed(drain=False)
            raise StoreUnavailable("its connections broke")

    store: Any = Thawed(0.0)
    charge = lease.Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(6 * LEASE), pipes():
        assert await lease.keep(lambda: store, charge, hand_nothing_back) is False
    assert len(asked) > 3, "the third was answered, and the lease went on"


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreUnsuitable("refused"), StoreFault("odd"), Throttled(1.0)])
async def test_a_store_that_cannot_be_opened_for_a_lease_is_a_lost_lease(error: Exception) -> None:
    """Also for a keeper that was started anew: the handlers must not run on when others may have their jobs."""

    class Closed(Away):
        async def open(self, *, migrate: bool) -> None:
            raise error

    store: Any = Closed(0.0)
    charge = lease.Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(4 * LEASE), pipes() as said:
        assert await lease.keep(lambda: store, charge, hand_nothing_back) is False
        assert lease.STOP_AT * LEASE <= time.monotonic() - store.sent_at < 1.5 * LEASE
        word = msgspec.json.decode(os.read(said, lease.WORD_BYTES), type=lease.Word)
    assert word.away
    assert word.lost is not None
    assert word.lost.startswith("the store could not be reached: ")


async def test_what_a_store_that_is_away_does_not_take_back_is_offered_again() -> None:
    """The worker cannot say so itself: its event loop is held, perhaps until its process is replaced."""
    fence, offered = UUID(int=7), list[Sequence[UUID]]()

    async def hand_back(fences: Sequence[UUID]) -> None:
        offered.append(fences)
        if len(offered) == 1:
            raise StoreUnavailable("away")

    async with pipes():
        vigil = lease.Vigil(this_process())
        vigil._hear(lease.Health(healthy=False, unstarted=(fence,)))
        with pytest.raises(StoreUnavailable):
            await vigil.hand_back_unstarted(hand_back)
        for _ in range(2):
            await vigil.hand_back_unstarted(hand_back)
        await vigil.end()
    assert offered == [(fence,), (fence,)]
