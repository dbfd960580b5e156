"""The lease keeper's own life, in this process: by when it says that the lease is lost."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.access import Throttled
from taskforge.domain.errors import LeaseLost, StoreFault, StoreUnavailable, StoreUnsuitable
from taskforge.domain.worker import Renewed, Sample
from taskforge.settings import Settings
from taskforge.worker.processes import lease, lease_keeper
from taskforge.worker.processes.keeper_words import (
    RETRY_SECONDS,
    WORD_BYTES,
    Charge,
    ChildNews,
    Word,
    WorkerHealth,
)
from taskforge.worker.processes.lease_keeper import LeaseKeeper
from taskforge.worker.processes.process_id import process_of, this_process
from taskforge.worker.processes.vigil import Vigil

LEASE = 1.5


class Away:
    """A store that renews once, after a while, and then cannot be reached."""

    def __init__(self, answers_after: float) -> None:
        self._answers_after = answers_after
        self._asked = 0
        # when the last renewal was sent that came through; before there is one, the beginning
        self.sent_at = time.monotonic()

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
async def pipes_both_ways() -> AsyncIterator[tuple[int, int]]:
    """From and to a worker, as a keeper has them: what is written to the first one is what the
    worker says, and what is read from the second one is what the keeper said."""
    (stdin, to_keeper), (from_keeper, stdout) = os.pipe(), os.pipe()
    with (
        os.fdopen(stdin) as heard,
        os.fdopen(stdout, "w") as told,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", heard)
        patch.setattr(sys, "stdout", told)
        try:
            yield to_keeper, from_keeper
        finally:
            os.close(to_keeper)
            os.close(from_keeper)


@asynccontextmanager
async def pipes() -> AsyncIterator[int]:
    """The same for a worker that says nothing."""
    async with pipes_both_ways() as (_, from_keeper):
        yield from_keeper


class NoEndings:
    """For a worker none of whose jobs has to be ended by its keeper."""

    async def hand_back(self, *_: object) -> None: ...
    async def time_out(self, *_: object) -> None: ...


NO_ENDINGS = NoEndings()


@pytest.mark.parametrize("answers_after", [0.0, 0.6])
async def test_a_lease_is_given_up_before_it_ends_counted_from_when_its_renewal_was_sent(
    answers_after: float,
) -> None:
    """The store counts from then, not from when its answer came: a moment later others may have the
    jobs."""
    store: Any = Away(answers_after * LEASE)
    charge = Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(4 * LEASE), pipes() as said:
        assert await lease.keep(lambda: store, charge, NO_ENDINGS) is False
        assert time.monotonic() - store.sent_at < LEASE
        *_, last = os.read(said, WORD_BYTES).splitlines()
    assert msgspec.json.decode(last, type=Word).lost is not None


async def test_for_how_long_the_store_was_not_reached_is_counted_from_its_last_answer() -> None:
    store: Any = Away(0.3 * LEASE)
    charge = Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(4 * LEASE), pipes() as said:
        assert await lease.keep(lambda: store, charge, NO_ENDINGS) is False
        silent = time.monotonic() - store.sent_at - 0.3 * LEASE
        *_, last = os.read(said, WORD_BYTES).splitlines()
    lost = msgspec.json.decode(last, type=Word).lost
    assert lost is not None
    found = re.fullmatch(r"the store could not be reached for ([\d.]+) (s|ms): away", lost)
    assert found is not None, lost
    told = float(found[1]) / (1 if found[2] == "s" else 1000)
    assert told == pytest.approx(silent, abs=0.1), "a lease is longer than that"


class Frozen(Away):
    """One that renews once and then does not answer."""

    async def renew(self, *_: Any) -> Renewed:
        if self._asked:
            await asyncio.Event().wait()
        return await super().renew()


async def test_a_lease_is_given_up_before_it_ends_though_the_store_says_nothing() -> None:
    store: Any = Frozen(0.0)
    charge = Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(4 * LEASE), pipes() as said:
        assert await lease.keep(lambda: store, charge, NO_ENDINGS) is False
        assert time.monotonic() - store.sent_at < LEASE
        *_, last = os.read(said, WORD_BYTES).splitlines()
    assert msgspec.json.decode(last, type=Word).away


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
    charge = Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(6 * LEASE), pipes():
        assert await lease.keep(lambda: store, charge, NO_ENDINGS) is False
    assert len(asked) > 3, "the third was answered, and the lease went on"


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("away"), StoreUnsuitable("refused"), StoreFault("odd"), Throttled(1.0)],
)
async def test_a_store_that_cannot_be_opened_for_a_lease_is_a_lost_lease(error: Exception) -> None:
    """Also for a keeper that was started anew: the handlers must not run on when others may have
    their jobs."""

    class Closed(Away):
        async def open(self, *, migrate: bool) -> None:
            raise error

    store: Any = Closed(0.0)
    charge = Charge(Settings(), UUID(int=1), LEASE, 0.05, this_process())
    async with asyncio.timeout(4 * LEASE), pipes() as said:
        assert await lease.keep(lambda: store, charge, NO_ENDINGS) is False
        assert lease.STOP_AT * LEASE <= time.monotonic() - store.sent_at < 1.5 * LEASE
        word = msgspec.json.decode(os.read(said, WORD_BYTES), type=Word)
    assert word.away
    assert word.lost is not None
    assert word.lost.startswith("the store could not be reached: ")


async def test_what_a_store_that_is_away_does_not_take_back_is_offered_again() -> None:
    """The worker cannot say so itself: its event loop is held, perhaps until its process is
    replaced."""
    fence, offered = UUID(int=7), list[Sequence[UUID]]()

    async def hand_back(fences: Sequence[UUID]) -> None:
        offered.append(fences)
        if len(offered) == 1:
            raise StoreUnavailable("away")

    async with pipes():
        vigil = Vigil(this_process())
        vigil._hear(WorkerHealth(healthy=False, unstarted=(fence,)))
        with pytest.raises(StoreUnavailable):
            await vigil.hand_back_unstarted(hand_back)
        for _ in range(2):
            await vigil.hand_back_unstarted(hand_back)
        await vigil.end()
    assert offered == [(fence,), (fence,)]


@contextmanager
def sleeping_process() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


class Mourning(Away):
    """A store that renews, and keeps what it is told of deaths."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.told: list[tuple[UUID, bool]] = []

    async def renew(self, *_: Any) -> Renewed:
        return Renewed(drain=False)

    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None:
        self.told.append((incarnation, died))


async def test_a_death_is_told_though_the_lease_is_lost_in_the_same_moment() -> None:
    """Else nobody would end what the dead worker left running."""
    with sleeping_process() as worker, sleeping_process() as child:

        class Late(Mourning):
            async def renew(self, *_: Any) -> Renewed:
                worker.kill()
                try:
                    return await asyncio.Event().wait()  # type: ignore[return-value]
                except asyncio.CancelledError:  # for the keeper has seen the death
                    raise LeaseLost("an answer that was on its way") from None

        store: Any = Late()
        charge = Charge(Settings(), UUID(int=1), 60.0, 0.05, process_of(worker.pid))
        async with asyncio.timeout(10), pipes_both_ways() as (to_keeper, _):
            news = ChildNews(process_of(child.pid))
            os.write(to_keeper, msgspec.json.encode(news) + b"\n")
            assert await lease.keep(lambda: store, charge, NO_ENDINGS) is True
        assert store.told == [(charge.incarnation, True)]
        assert child.wait(10) == -signal.SIGKILL


async def test_what_a_dead_worker_had_said_is_heard_before_its_processes_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It died before its keeper had begun to listen: what it had started is known from its last
    words alone."""
    loop = asyncio.get_running_loop()
    connect = loop.connect_read_pipe

    async def connect_late(*arguments: Any) -> Any:
        await asyncio.sleep(0.1)
        return await connect(*arguments)

    monkeypatch.setattr(loop, "connect_read_pipe", connect_late)
    with sleeping_process() as worker, sleeping_process() as child:
        store: Any = Mourning()
        charge = Charge(Settings(), UUID(int=1), 60.0, 0.05, process_of(worker.pid))
        worker.kill()
        worker.wait()
        async with asyncio.timeout(10), pipes_both_ways() as (to_keeper, _):
            news = ChildNews(process_of(child.pid))
            os.write(to_keeper, msgspec.json.encode(news) + b"\n")
            assert await lease.keep(lambda: store, charge, NO_ENDINGS) is True
        assert store.told == [(charge.incarnation, True)]
        assert child.poll() == -signal.SIGKILL


async def test_a_keeper_that_stood_still_for_a_moment_now_and_then_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only one that stood still at three looks in a row is taken for frozen."""
    looks = [True, True, False] * 3 + [True, True, True]
    left, killed = iter(looks), list[int]()
    monkeypatch.setattr(lease_keeper, "is_stopped", lambda _: next(left))
    charge = Charge(Settings(), UUID(int=1), 0.01, 0.05, this_process())
    process: Any = SimpleNamespace(pid=1, kill=lambda: killed.append(len(list(left))))
    async with asyncio.timeout(10):
        await LeaseKeeper([], charge, lambda _: None)._kill_once_frozen(process)
    assert killed == [0], "after the last look, and none before it"


async def test_whose_time_was_over_is_told_before_the_death_that_it_brought_about() -> None:
    """The worker's last word, which no renewal has passed on."""
    fence, told = UUID(int=7), list[Any]()

    class Witness(Mourning):
        async def renew(self, *arguments: Any) -> Renewed:
            worker.kill()
            if arguments[-1].blocking is not None:
                told.append(("held", arguments[-1].blocking))
            return Renewed(drain=False)

        async def deregister(self, incarnation: UUID, *, died: bool) -> None:
            told.append(("died", died))

    class Endings(NoEndings):
        async def time_out(self, *arguments: Any) -> None:
            told.append(("timed out", *arguments[1:]))

    with sleeping_process() as worker:
        store: Any = Witness()
        charge = Charge(Settings(), UUID(int=1), 60.0, 0.05, process_of(worker.pid))
        async with asyncio.timeout(10), pipes_both_ways() as (to_keeper, _):
            last = WorkerHealth(False, blocking=fence, overran_seconds=2.5)
            keeping = asyncio.create_task(lease.keep(lambda: store, charge, Endings()))
            await asyncio.to_thread(worker.wait)
            os.write(to_keeper, msgspec.json.encode(last) + b"\n")
            assert await keeping is True
    assert told[-3:] == [
        ("held", fence),
        ("timed out", charge.incarnation, fence, 2.5),
        ("died", True),
    ]


async def test_what_a_worker_says_of_itself_does_not_wait_for_the_next_renewal() -> None:
    """It cannot run its jobs just now: others are to have those that have not started, and to see
    why."""
    fence, renewed, handed_back = UUID(int=7), list[Sample](), asyncio.Event()

    class Heard(Mourning):
        async def renew(self, *arguments: Any) -> Renewed:
            renewed.append(arguments[-1])
            said.set()
            return Renewed(drain=False)

    class Endings(NoEndings):
        async def hand_back(self, *arguments: Any) -> None:
            assert arguments[-1] == (fence,)
            handed_back.set()

    said, store = asyncio.Event(), Heard()
    charge = Charge(Settings(), UUID(int=1), 600.0, 60.0, this_process())
    async with asyncio.timeout(10), pipes_both_ways() as (to_keeper, _):
        made: Any = store
        keeping = asyncio.create_task(lease.keep(lambda: made, charge, Endings()))
        await said.wait()
        health = WorkerHealth(healthy=False, unstarted=(fence,))
        os.write(to_keeper, msgspec.json.encode(health) + b"\n")
        await handed_back.wait()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert [one.healthy for one in renewed] == [True, False]


async def test_what_it_says_while_a_renewal_is_under_way_does_not_wait_for_the_next_one_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renewed, heard, again = list[Sample](), asyncio.Event(), asyncio.Event()
    hear = Vigil._hear

    def hear_and_tell(vigil: Vigil, said: Any) -> None:
        hear(vigil, said)
        heard.set()

    class Busy(Mourning):
        async def renew(self, *arguments: Any) -> Renewed:
            renewed.append(arguments[-1])
            if len(renewed) == 1:
                said = msgspec.json.encode(WorkerHealth(healthy=False))
                os.write(to_keeper, said + b"\n")
                await heard.wait()
            else:
                again.set()
            return Renewed(drain=False)

    monkeypatch.setattr(Vigil, "_hear", hear_and_tell)
    charge = Charge(Settings(), UUID(int=1), 600.0, 60.0, this_process())
    async with asyncio.timeout(10), pipes_both_ways() as (to_keeper, _):
        store: Any = Busy()
        keeping = asyncio.create_task(lease.keep(lambda: store, charge, NO_ENDINGS))
        await again.wait()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert [one.healthy for one in renewed] == [True, False]


async def test_what_is_to_go_back_while_other_jobs_go_back_is_not_forgotten() -> None:
    """A worker names so many jobs at a time as fit into one word."""
    first, second, offered = UUID(int=7), UUID(int=8), list[Sequence[UUID]]()

    async def hand_back(fences: Sequence[UUID]) -> None:
        offered.append(fences)
        if len(offered) == 1:
            vigil._hear(WorkerHealth(healthy=False, unstarted=(second,)))

    async with pipes():
        vigil = Vigil(this_process())
        vigil._hear(WorkerHealth(healthy=False, unstarted=(first,)))
        for _ in range(3):
            await vigil.hand_back_unstarted(hand_back)
        await vigil.end()
    assert offered == [(first,), (second,)]


async def test_a_process_is_told_of_though_the_pipe_is_full() -> None:
    """Its keeper does not listen just now: no job may begin in a process that would outlive it
    unknown."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    charge = Charge(Settings(), UUID(int=1), 600.0, 60.0, this_process())
    keeper, child = LeaseKeeper([], charge, lambda _: None), this_process()
    with os.fdopen(reading, "rb", buffering=0) as heard, os.fdopen(writing, "wb", 0) as told:
        process: Any = SimpleNamespace(stdin=told)
        keeper._process = process
        full = 0
        while written := told.write(b"\n" * 4_096):
            full += written
        telling = asyncio.create_task(keeper.tell_started(child))
        await asyncio.sleep(3 * RETRY_SECONDS)
        assert not telling.done()
        while full:
            full -= len(heard.read(full))
        async with asyncio.timeout(10):
            await telling
        assert msgspec.json.decode(heard.read(4_096), type=ChildNews).child == child
