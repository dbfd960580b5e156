"""What a handler may answer, and what comes of its job."""

import asyncio
import contextvars
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest

from taskforge import Cancel, Context, Fail, Invalid, JobFailed, Retry, Skip, Snooze, TaskForge
from taskforge.domain.errors import Conflict, StoreFault, StoreUnavailable
from taskforge.domain.job import Claimed, StoredJob
from taskforge.domain.outcome import Failure, Outcome, Success
from taskforge.domain.queue import QueueSettings
from taskforge.ports.work_source import Completion
from taskforge.testing import Sandbox
from taskforge.worker.finisher import Finisher
from tests.support.crew import Crew, until
from tests.worker.handlers import VERDICTS, MuteError, add_to

EXPECTED = {
    "snooze": ("scheduled", 0, None),
    "retry": ("scheduled", 1, None),
    "fail": ("failed", 1, "failed for good by its handler"),
    "cancel": ("cancelled", 1, "off"),
    "skip": ("pending", 0, None),
}


@pytest.mark.parametrize("raised", [True, False])
async def test_every_verdict_raised_and_returned_in_every_kind(
    crew_on_each: Crew, raised: bool
) -> None:
    forge = crew_on_each.forge
    add_to(forge)
    answered: list[str] = []

    def answer(what: str) -> object:
        answered.append(what)
        if raised:
            raise VERDICTS[what]
        return VERDICTS[what]

    @forge.job()
    async def in_loop(what: str) -> object:
        return answer(what)

    @forge.job()
    def in_thread(what: str) -> object:
        return answer(what)

    await crew_on_each.start(upkeep=False, slots=2)
    in_process: Any = forge.registry.get("verdict_in_process")
    jobs: dict[Any, str] = {}
    for what in VERDICTS:
        jobs[await in_loop.enqueue(what)] = what
        jobs[await in_thread.enqueue(what)] = what
        payload = in_process.encode((what,), {"raised": raised})
        [handle] = await forge.enqueue_many([_new(in_process, payload)])
        jobs[handle] = what

    async def seen() -> list[tuple[str, StoredJob]]:
        return [(what, await handle.job()) for handle, what in jobs.items()]

    async def is_there(what: str, job: StoredJob) -> bool:
        return (job.status, job.attempt_count) == EXPECTED[what][:2] and bool(
            await crew_on_each.executions(job.id)
        )

    async with asyncio.timeout(20):
        while not all([await is_there(what, job) for what, job in await seen()]):
            await asyncio.sleep(0.05)
    for what, job in await seen():
        executions = await crew_on_each.executions(job.id)
        assert (job.status, job.attempt_count, job.reason) == EXPECTED[what]
        assert len(executions) == 1
        if what in ("snooze", "skip"):
            assert (executions[0].status, executions[0].reason) == (
                "cancelled",
                VERDICTS[what].args[0],
            )
        if what == "retry":
            assert executions[0].error is not None
            assert executions[0].error.message == "once more"


def _new(handler: Any, payload: bytes) -> Any:
    from taskforge.sdk.options import Options

    return Options().build(handler, payload)


async def test_values_come_back_typed(crew_on_each: Crew) -> None:
    forge = crew_on_each.forge

    @forge.job()
    async def nothing() -> None:
        return None

    @forge.job()
    def value(number: int) -> dict[str, list[int]]:
        return {"numbers": [number, number + 1]}

    @forge.job()
    async def awkward() -> str:
        return "nul \x00, emoji \U0001f600, quote ' and \\"

    await crew_on_each.start()
    assert await (await nothing.enqueue()).result(10) is None
    assert await (await value.enqueue(4)).result(10) == {"numbers": [4, 5]}
    assert (
        await (await awkward.enqueue()).result(10) == "nul \x00, emoji \U0001f600, quote ' and \\"
    )


async def test_a_result_that_cannot_be_stored_fails_the_attempt(crew: Crew) -> None:
    @crew.forge.job(max_attempts=1)
    async def impossible(what: str) -> object:
        return {
            "object": object(),
            "nan": float("nan"),
            "huge": "x" * (1 << 21),
            "surrogate": "\ud800",
        }[what]

    await crew.start()
    for what, message in {
        "object": "cannot be written",
        "nan": "nan",
        "huge": "bytes",
        "surrogate": "surrogate",
    }.items():
        job = await crew.end(await impossible.enqueue(what))
        assert job.status == "failed"
        assert job.error is not None
        assert message in job.error.message


@pytest.mark.parametrize("odd", ["a\x00b", "a\udcffb"], ids=["nul", "half a pair"])
async def test_a_reason_that_no_store_can_hold_costs_nobody_anything(
    crew_on_each: Crew, odd: str
) -> None:
    @crew_on_each.forge.job()
    async def picky(number: int) -> int:
        if number == 1:
            raise Cancel(odd)
        if number == 2:
            raise Snooze(600, odd * 1_000)
        return number

    handles = [await picky.enqueue(number) for number in range(4)]
    await crew_on_each.start(upkeep=False)
    assert [await handles[number].result(10) for number in (0, 3)] == [0, 3]
    cancelled = await crew_on_each.end(handles[1])
    assert (cancelled.status, len(cancelled.reason or "")) == ("cancelled", 3)
    async with asyncio.timeout(10):
        while (
            not (snoozed := await crew_on_each.executions(handles[2].id))
            or snoozed[0].finished_at is None
        ):
            await asyncio.sleep(0.02)
    assert len(snoozed[0].reason or "") == 1_000


class Choosy:
    """A source that takes no batch with an outcome in it that it does not like."""

    def __init__(self, refused: Callable[[Completion], bool], error: Exception) -> None:
        self._refused = refused
        self._error = error
        self.stored: list[tuple[UUID, Outcome]] = []

    async def complete(self, completions: Sequence[Completion]) -> list[UUID]:
        if any(self._refused(one) for one in completions):
            raise self._error
        self.stored += [(one.job.fence, one.outcome) for one in completions]
        return []


@pytest.mark.parametrize(
    "error",
    [
        Invalid("text", "is odd", "use another"),
        Conflict("odd"),
        StoreFault("odd"),
        ValueError("odd"),
    ],
)
@pytest.mark.parametrize("also_failures", [False, True])
async def test_an_outcome_that_the_store_refuses_is_a_failure_and_the_others_are_kept(
    also_failures: bool, error: Exception
) -> None:
    async def reports() -> None:
        raise error

    jobs = [
        Claimed(
            uuid4(), "default", "work", b"null", 1, 3, 0, 0, 60.0, None, None, 0.0, QueueSettings()
        )
        for _ in range(3)
    ]
    bad = jobs[1].fence
    source: Any = Choosy(
        lambda one: one.job.fence == bad and (also_failures or isinstance(one.outcome, Success)),
        error,
    )
    finisher = Finisher(source, reports, lambda _: None, lambda: None)
    running = asyncio.create_task(finisher.run())
    for job in jobs:
        finisher.put(Completion(job, Success(b"1")))
    async with asyncio.timeout(5):
        await finisher.drained()
    assert not running.done()
    running.cancel()
    stored = dict(source.stored)
    assert [stored[job.fence] for job in (jobs[0], jobs[2])] == [Success(b"1")] * 2
    if also_failures:
        assert bad not in stored
    else:
        assert isinstance(stored[bad], Failure)
        assert "cannot be stored" in stored[bad].error.message


async def test_outcomes_are_sent_again_after_ever_longer_waits_while_the_store_is_away() -> None:
    asked: list[float] = []

    class Source:
        async def complete(self, _: Sequence[Completion]) -> list[UUID]:
            asked.append(time.monotonic())
            if len(asked) < 5:
                raise StoreUnavailable("away")
            return []

    async def reports() -> None: ...

    source: Any = Source()
    finisher = Finisher(source, reports, lambda _: None, lambda: None)
    running = asyncio.create_task(finisher.run())
    job = Claimed(
        uuid4(), "default", "work", b"null", 1, 3, 0, 0, 60.0, None, None, 0.0, QueueSettings()
    )
    finisher.put(Completion(job, Success(b"1")))
    async with asyncio.timeout(10):
        await finisher.drained()
    running.cancel()
    waits = [after - before for before, after in pairwise(asked)]
    assert waits[-1] > 0.5, waits  # the first is a tenth of a second


async def test_failures_are_kept_with_their_traceback_and_retried(crew_on_each: Crew) -> None:
    forge = crew_on_each.forge
    forge.queue("default", retry_delay_seconds=0.05)
    tries: list[int] = []

    @forge.job(max_attempts=3)
    async def flaky(ctx: Context) -> int:
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("broken\x00 for now")
        return ctx.attempt

    await crew_on_each.start()
    handle = await flaky.enqueue()
    assert await handle.result(20) == 3
    assert tries == [1, 2, 3]
    executions = await crew_on_each.executions(handle.id)
    assert [one.status for one in executions] == ["retry_scheduled", "retry_scheduled", "succeeded"]
    error = executions[0].error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "broken␀ for now")
    assert "raise ValueError" in error.traceback


async def test_a_job_without_luck_fails_for_good_and_says_so(crew: Crew) -> None:
    crew.forge.queue("default", retry_delay_seconds=0.02)

    @crew.forge.job(max_attempts=2)
    def hopeless() -> None:
        raise RuntimeError("never")

    await crew.start()
    with pytest.raises(JobFailed, match="RuntimeError: never") as caught:
        await (await hopeless.enqueue()).result(10)
    assert caught.value.job.reason == "no attempts left after 2"


async def test_who_waits_for_a_dead_letter_hears_of_it_and_may_redrive_it(
    crew_on_each: Crew,
) -> None:
    forge = crew_on_each.forge
    forge.queue("strict", dead_letter_queue="lost", max_retries=0)
    healed: list[int] = []

    @forge.job(queue="strict")
    async def frail() -> str:
        if not healed:
            raise ValueError("boom")
        return "well"

    await crew_on_each.start()
    handle = await frail.enqueue()
    with pytest.raises(
        JobFailed, match=r"is in dead letter queue 'lost': ValueError: boom"
    ) as caught:
        await handle.result(20)
    job = caught.value.job
    assert (job.queue, job.origin_queue, job.reason) == (
        "lost",
        "strict",
        "no attempts left after 1",
    )
    assert job.error is not None
    assert (job.error.type, job.error.message) == ("ValueError", "boom")
    with pytest.raises(JobFailed):
        await handle.result(0)
    healed.append(1)
    await handle.redrive()
    assert await handle.result(20) == "well"


async def test_leaving_the_interpreter_or_a_cancelled_task_is_a_failure_and_the_worker_lives(
    crew: Crew,
) -> None:
    @crew.forge.job(max_attempts=1)
    async def leaves() -> None:
        sys.exit("from the loop")

    @crew.forge.job(max_attempts=1)
    def leaves_in_thread() -> None:
        sys.exit("from a thread")

    @crew.forge.job(max_attempts=1)
    async def awaits_what_was_cancelled() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    worker = await crew.start(slots=1)
    for function, kind in (
        (leaves, "SystemExit"),
        (leaves_in_thread, "SystemExit"),
        (awaits_what_was_cancelled, "CancelledError"),
    ):
        job = await crew.end(await function.enqueue())
        assert job.error is not None
        assert (job.status, job.error.type) == ("failed", kind)
    assert worker.executor.done == 3


async def test_a_cancelled_handler_leaves_no_trace_in_its_slot() -> None:
    """A slot runs one job after the other in one task; a cancel count left over would break the
    next one's task group."""
    forge = TaskForge("sqlite:///nowhere.db")
    seen: list[str] = []

    @forge.job(timeout=0.1, max_attempts=1)
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("ignored")
        return "still here"

    @forge.job(max_attempts=1)
    async def grouped() -> None:
        task = asyncio.current_task()
        assert task is not None
        seen.append(f"cancelled {task.cancelling()} times")
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail())
            group.create_task(asyncio.sleep(10))

    async with Sandbox(forge) as box:
        await stubborn.enqueue()
        await grouped.enqueue()
        first, second = await box.run()
    assert seen == ["ignored", "cancelled 0 times"]
    assert first.error is not None
    # what it returns after its time is too late, wherever its jobs are
    assert first.error.type == "Timeout"
    assert second.error is not None
    assert second.error.type == "ExceptionGroup"


async def _fail() -> None:
    await asyncio.sleep(0)
    raise ValueError("inner")


async def test_slots_bound_what_runs_at_once(crew: Crew) -> None:
    now: list[int] = [0, 0]
    release = asyncio.Event()

    @crew.forge.job()
    async def counted() -> None:
        now[0] += 1
        now[1] = max(now)
        await release.wait()
        now[0] -= 1

    await crew.start(slots=3)
    handles = await counted.enqueue_many([()] * 9)
    await until(lambda: now[0] == 3)
    await asyncio.sleep(0.3)
    release.set()
    for handle in handles:
        await crew.end(handle)
    assert now == [0, 3]


class NotAnError(BaseException):
    pass


class HalfMade(Fail):
    def __init__(self) -> None:
        """Without what makes it a verdict."""


# What is raised → the error's type and message: in the event loop, and in a thread where that
# differs.
ODD: dict[str, tuple[BaseException, tuple[str, str], tuple[str, str] | None]] = {
    "mute": (MuteError(), ("MuteError", "(its text cannot be made)"), None),
    "not an error": (NotAnError("enough"), ("NotAnError", "enough"), None),
    "an exit": (SystemExit(3), ("SystemExit", "3"), None),
    "someone else's "
        "cancellation": (asyncio.CancelledError(), ("CancelledError", "CancelledError"), None),
    "an exhausted iterator": (
        StopIteration(), ("RuntimeError", ("coroutine raised "
            "StopIteration")), ("RuntimeError", "the handler raised StopIteration"),
    ),
    "an error as "
        "the reason": (Fail(ValueError("wrong")), ("Fail", "wrong"), None),  # type: ignore[arg-type]
    "half a verdict": (
        HalfMade(), ("AttributeError", ("the handler's outcome is not one: 'HalfMade' object has "
            "no attribute 'reason'")), None,
    ),
}  # fmt: skip


async def test_whatever_a_handler_raises_ends_its_attempt_and_nothing_else(crew: Crew) -> None:
    @crew.forge.job(max_attempts=1)
    async def in_loop(what: str) -> None:
        raise ODD[what][0]

    @crew.forge.job(max_attempts=1)
    def in_thread(what: str) -> None:
        raise ODD[what][0]

    await crew.start(upkeep=False, slots=2)
    for what, (_, expected, in_threads) in ODD.items():
        for handler, wanted in ((in_loop, expected), (in_thread, in_threads or expected)):
            job = await crew.end(await handler.enqueue(what))
            assert job.error is not None
            assert (job.status, job.error.type, job.error.message) == ("failed", *wanted), what


async def test_an_interrupt_raised_in_a_thread_does_not_end_the_worker(crew: Crew) -> None:
    @crew.forge.job(max_attempts=1)
    def interrupted() -> None:
        raise KeyboardInterrupt

    await crew.start(upkeep=False)
    for _ in range(2):
        job = await crew.end(await interrupted.enqueue())
        assert job.error is not None
        assert (job.error.type, job.error.message) == (
            "RuntimeError",
            "the handler raised KeyboardInterrupt",
        )


async def test_a_verdict_from_a_task_group_counts(crew: Crew) -> None:
    async def part(what: str) -> None:
        raise Fail("no use") if what != "mixed" else ValueError("and this")

    @crew.forge.job(max_attempts=3)
    async def grouped(what: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part("verdict"))
            group.create_task(part(what))

    await crew.start(upkeep=False)
    job = await crew.end(await grouped.enqueue("verdict"))
    assert job.error is not None
    assert (job.error.type, job.error.message, job.attempt_count) == ("Fail", "no use", 1)
    mixed = await crew.end(await grouped.options(max_attempts=1).enqueue("mixed"))
    assert mixed.error is not None
    assert mixed.error.type == "ExceptionGroup"


async def test_bad_arguments_of_another_job_are_a_failure_like_any_other(crew: Crew) -> None:
    @crew.forge.job()
    async def inner(number: int) -> None: ...

    @crew.forge.job(max_attempts=1)
    async def outer() -> None:
        await inner.enqueue("one")  # type: ignore[arg-type]

    await crew.start(upkeep=False)
    job = await crew.end(await outer.enqueue())
    assert job.error is not None
    assert (job.error.type, job.reason) == ("Invalid", "no attempts left after 1")
    assert "in outer" in job.error.traceback


tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


async def test_what_a_handler_sets_in_its_context_is_not_there_for_the_next_job(crew: Crew) -> None:
    seen: list[str] = []

    @crew.forge.job()
    async def visits(name: str, waits: bool) -> None:
        seen.append(tenant.get())
        tenant.set(name)
        if waits:
            await asyncio.sleep(0.01)
            await asyncio.create_task(asyncio.sleep(0))
        seen.append(tenant.get())

    await crew.start(slots=1, upkeep=False)
    for name, waits in (("a", False), ("b", True), ("c", True), ("d", False)):
        await crew.end(await visits.enqueue(name, waits))
    assert seen == ["nobody", "a", "nobody", "b", "nobody", "c", "nobody", "d"]


async def test_a_handler_that_cancels_itself_costs_its_slot_nothing(crew: Crew) -> None:
    @crew.forge.job(max_attempts=1)
    async def at_once() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0.1)

    @crew.forge.job(max_attempts=1)
    async def and_leaves() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "before it struck"

    @crew.forge.job(max_attempts=1)
    async def and_catches() -> str:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.02, task.cancel)
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "caught"
        return "not struck"

    @crew.forge.job(max_attempts=1)
    async def innocent() -> str:
        cancelled = asyncio.create_task(asyncio.sleep(5))
        cancelled.cancel()
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        await asyncio.wait([cancelled])
        return "well"

    await crew.start(slots=1, upkeep=False)
    job = await crew.end(await at_once.enqueue())
    assert job.error is not None
    assert (job.status, job.error.type) == ("failed", "CancelledError")
    for culprit, answer in ((and_leaves, "before it struck"), (and_catches, "caught")):
        assert await (await culprit.enqueue()).result(10) == answer
        assert await (await innocent.enqueue()).result(10) == "well"


async def test_a_cancel_that_a_handler_did_not_wait_for_strikes_nobody_else(crew: Crew) -> None:
    """All of them wait before the worker starts: the next job is in the slot before the cancel is
    delivered."""

    @crew.forge.job(max_attempts=1)
    async def and_leaves() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "before it struck"

    @crew.forge.job(max_attempts=1)
    async def innocent() -> str:
        await asyncio.sleep(0.01)
        return "well"

    handles = [await function.enqueue() for _ in range(5) for function in (and_leaves, innocent)]
    await crew.start(slots=2, upkeep=False)
    assert [await handle.result(10) for handle in handles] == ["before it struck", "well"] * 5


def test_verdicts_refuse_nonsense() -> None:
    for wrong in (-1, float("nan"), "soon"):
        with pytest.raises(Invalid, match="delay"):
            Snooze(wrong)  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="delay"):
            Retry(wrong)  # type: ignore[arg-type]
    assert (Cancel().reason, Skip().reason) == (
        "cancelled by the handler",
        "skipped by the handler",
    )
