"""Claims that wait at a server, at the moments that no request can hit by itself: what comes while
the store is being asked."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from taskforge.domain.changes import CancelJob
from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed, Inserted, JobStatus, new_job
from taskforge.domain.outcome import Finish, Lost, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.operations.work import claim_desk
from taskforge.operations.work.claim_desk import ClaimDesk
from taskforge.storage.sqlite.engine import SqliteEngine


class Desk:
    """A desk, a worker, and a store whose answer to a claim is held up until it is let go."""

    def __init__(self, engine: SqliteEngine, worker: UUID) -> None:
        self.engine, self.desk = engine, ClaimDesk(engine)
        self._worker, self._claim = worker, engine.claim
        self.asked, self.let_go = asyncio.Event(), asyncio.Event()
        self.places = 0
        engine.claim = self._slow  # type: ignore[method-assign]

    async def _slow(self, claim: Claim) -> list[Claimed]:
        claimed = await self._claim(claim)
        self.asked.set()
        await self.let_go.wait()
        return claimed

    def _take(self) -> Callable[[], None]:
        self.places += 1
        return lambda: None

    async def claim(self) -> list[Claimed]:
        return await self.desk.claim(Claim(self._worker, 1, remote=True), "kind", 30.0, self._take)

    async def insert(self) -> UUID:
        [inserted] = await self.engine.insert(1, [new_job("default", "work")])
        assert isinstance(inserted, Inserted)
        return inserted.job


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    engine = SqliteEngine(tmp_path / "jobs.db", durable=False)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    worker = await engine.register(1, NewWorker(name="w"), 60)
    yield Desk(engine, worker.incarnation)
    await engine.close()


async def test_what_was_claimed_for_a_caller_that_left_meanwhile_goes_back(desk: Desk) -> None:
    job = await desk.insert()
    caller = asyncio.create_task(desk.claim())
    await desk.asked.wait()
    assert [one.status for one in await desk.engine.get([1], [job])] == [JobStatus.PROCESSING]
    caller.cancel()
    await asyncio.sleep(0)
    desk.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert [one.status for one in await desk.engine.get([1], [job])] == [JobStatus.PENDING]


async def test_what_was_cancelled_while_its_caller_left_ends_so(desk: Desk) -> None:
    job = await desk.insert()
    caller = asyncio.create_task(desk.claim())
    await desk.asked.wait()
    await desk.engine.change([1], [job], CancelJob("enough"))
    caller.cancel()
    await asyncio.sleep(0)
    desk.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert [(one.status, one.reason) for one in await desk.engine.get([1], [job])] == [
        (JobStatus.CANCELLED, "enough")
    ]


async def test_what_a_store_that_is_away_does_not_take_back_goes_back_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_desk, "POLL_SECONDS", 0.01)
    finish, tries = desk.engine.finish, []

    async def be_away_at_first(finishes: Sequence[Finish], **options: bool) -> list[Lost]:
        tries.append(len(finishes))
        if len(tries) == 1:
            raise StoreUnavailable("away")
        return await finish(finishes, **options)

    monkeypatch.setattr(desk.engine, "finish", be_away_at_first)
    job = await desk.insert()
    caller = asyncio.create_task(desk.claim())
    await desk.asked.wait()
    caller.cancel()
    desk.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    running = asyncio.create_task(desk.desk.run())
    async with asyncio.timeout(5):
        while [one.status for one in await desk.engine.get([1], [job])] != [JobStatus.PENDING]:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert tries == [1, 1]


async def test_a_newer_claim_ends_an_older_one_for_which_the_store_is_still_asked(
    desk: Desk,
) -> None:
    older = asyncio.create_task(desk.claim())
    await desk.asked.wait()
    newer = asyncio.create_task(desk.claim())
    await asyncio.sleep(0)
    desk.let_go.set()
    async with asyncio.timeout(5):
        assert await older == []
        while not desk.desk.waiting:
            await asyncio.sleep(0.005)
    newer.cancel()
    await asyncio.gather(newer, return_exceptions=True)
    assert desk.places == 1


async def test_a_job_that_comes_while_the_store_finds_nothing_does_not_wait_for_the_poll(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_desk, "POLL_SECONDS", 60.0)
    running = asyncio.create_task(desk.desk.run())
    caller = asyncio.create_task(desk.claim())
    await desk.asked.wait()
    heard = desk.desk._heard
    await desk.insert()
    async with asyncio.timeout(5):
        while desk.desk._heard == heard:
            await asyncio.sleep(0.005)
        desk.let_go.set()
        assert len(await caller) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_job_that_comes_while_the_store_is_asked_for_one_who_waits_is_there_for_the_next(
    desk: Desk,
) -> None:
    desk.let_go.set()
    waiting = asyncio.create_task(desk.claim())
    async with asyncio.timeout(5):
        while not desk.desk.waiting:
            await asyncio.sleep(0.005)
        desk.asked.clear()
        desk.let_go.clear()
        serving = asyncio.create_task(desk.desk._serve(desk.desk._groups["kind"]))
        await desk.asked.wait()
        job = await desk.insert()
        desk.desk._hear()
        desk.let_go.set()
        await serving
        other = await desk.engine.register(1, NewWorker(name="other"), 60)
        found = await desk.desk.claim(
            Claim(other.incarnation, 1, remote=True), "kind", 0.0, lambda: lambda: None
        )
    assert [job_of(one.fence) for one in found] == [job]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def _busy_waiter(desk: Desk) -> tuple[UUID, Claimed, "asyncio.Task[list[Claimed]]"]:
    """A worker of one slot whose job has ended, as it says, and which waits for the next one before
    that was heard of."""
    desk.let_go.set()
    worker = (
        await desk.engine.register(1, NewWorker(name="busy", max_concurrent_jobs=1), 60)
    ).incarnation
    await desk.insert()
    [job] = await desk.engine.claim(Claim(worker, 1))
    wish = Claim(worker, 1, remote=True, reporting=1)
    caller = asyncio.create_task(desk.desk.claim(wish, "kind", 30.0, lambda: lambda: None))
    async with asyncio.timeout(5):
        while not desk.desk.waiting:
            await asyncio.sleep(0.005)
    return worker, job, caller


@pytest.fixture
async def served(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """The same with waiting claims that are served when the test signals work, and not
    otherwise."""
    monkeypatch.setattr(claim_desk, "POLL_SECONDS", 60.0)
    monkeypatch.setattr(desk.engine, "on_work", lambda *_: lambda: None)
    running = asyncio.create_task(desk.desk.run())
    yield desk
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_a_worker_was_reporting_makes_no_slots_for_a_claim_that_waits(
    served: Desk,
) -> None:
    worker, job, caller = await _busy_waiter(served)
    served.asked.clear()
    await served.insert()
    served.desk._hear()
    async with asyncio.timeout(5):
        await served.asked.wait()
        assert (await served.engine.stats([1]))[0].processing == 1
        # Its report comes, and it need not wait for the next signal of work.
        await served.engine.finish([Finish(job.fence, ToSucceeded())])
        served.desk.hear_reports(worker, 1)
        assert len(await caller) == 1


async def test_a_worker_whose_reports_are_on_the_way_keeps_no_other_waiting(served: Desk) -> None:
    _, _, caller = await _busy_waiter(served)
    other = asyncio.create_task(served.claim())
    async with asyncio.timeout(5):
        while served.desk.waiting < 2:
            await asyncio.sleep(0.005)
        await served.insert()
        served.desk._hear()
        assert len(await other) == 1
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)


async def test_what_comes_in_the_moment_in_which_the_wait_is_over_is_not_lost(served: Desk) -> None:
    """The store answers so late that the caller's time is over before the answer reaches it: it
    gets the jobs all the same, for the store thinks that it has them."""
    job = await served.insert()
    jobs = await served._claim(Claim(served._worker, 1, remote=True))
    wait_seconds, asked = 0.3, 0

    async def answer_at_the_last_moment(_: Claim) -> list[Claimed]:
        nonlocal asked
        asked += 1
        if asked == 1:
            return []
        time.sleep(wait_seconds)  # the event loop learns of both at once
        return jobs

    served.engine.claim = answer_at_the_last_moment  # type: ignore[method-assign]
    wish = Claim(served._worker, 1, remote=True)
    caller = asyncio.create_task(
        served.desk.claim(wish, "kind", wait_seconds, lambda: lambda: None)
    )
    async with asyncio.timeout(5):
        while not served.desk.waiting:
            await asyncio.sleep(0)
        served.desk._hear()
        assert [job_of(one.fence) for one in await caller] == [job]
    assert [one.status for one in await served.engine.get([1], [job])] == [JobStatus.PROCESSING]


async def test_what_comes_in_the_moment_in_which_its_caller_leaves_goes_back(served: Desk) -> None:
    served.let_go.set()
    caller = asyncio.create_task(served.claim())
    async with asyncio.timeout(5):
        while not served.desk.waiting:
            await asyncio.sleep(0.005)
        [waiter] = served.desk._groups["kind"].waiters.values()
        waiter.future.add_done_callback(lambda _: caller.cancel())
        job = await served.insert()
        served.desk._hear()
        with pytest.raises(asyncio.CancelledError):
            await caller
    assert len(waiter.future.result()) == 1
    assert [one.status for one in await served.engine.get([1], [job])] == [JobStatus.PENDING]
