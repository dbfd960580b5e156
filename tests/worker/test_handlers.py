"""What surrounds a handler: failure hooks, middleware, names it had before, and what happens when
there is none."""

import asyncio
import logging
from typing import Any

import pytest

from taskforge import Context, Fail, TaskForge
from tests.support.crew import Crew, function, until
from tests.worker.handlers import MuteError, add_to


async def test_failure_hooks_see_every_failure_and_cannot_do_harm(crew: Crew) -> None:
    seen: list[tuple[str, str]] = []

    @crew.forge.on_failure
    def broken_hook(ctx: Context, error: BaseException) -> None:
        raise RuntimeError("the hook itself")

    @crew.forge.on_failure
    def hook(ctx: Context, error: BaseException) -> None:
        seen.append((ctx.job.job_type, str(error)))

    @crew.forge.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("boom")

    @crew.forge.job(max_attempts=1)
    async def says_no() -> None:
        raise Fail("a verdict is no accident")

    await crew.start()
    await crew.end(await fails.enqueue())
    await crew.end(await says_no.enqueue())
    assert seen == [("fails", "boom")]


@pytest.mark.parametrize("kind", ["loop", "process", "time"])
async def test_a_failed_attempt_is_one_line_in_the_workers_log(
    crew: Crew, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    crew.forge.queue("default", retry_delay_seconds=0.01)
    add_to(crew.forge)

    @crew.forge.job()
    async def fails(how: str) -> None:
        if how == "time":
            await asyncio.sleep(60)
        raise MuteError if how == "mute" else ValueError(f"no\nluck {'x' * 1_000}")

    await crew.start(upkeep=kind != "time")  # the upkeep may see first that its time is over
    if kind == "process":
        ways = {
            "LookupError: not in this process": function(crew, "fail_in_process")
            .options(max_attempts=2)
            .enqueue(),
            "died under it": function(crew, "die_in_process").options(max_attempts=1).enqueue(),
        }
    elif kind == "time":
        ways = {
            "it ran longer than its timeout of 0.2 s": fails.options(
                max_attempts=1, timeout=0.2
            ).enqueue("time")
        }
    else:
        ways = {
            "ValueError: no luck xxx": fails.options(max_attempts=2).enqueue("plainly"),
            "MuteError: (its text cannot be made)": fails.options(max_attempts=1).enqueue("mute"),
        }
    for what, enqueuing in ways.items():
        handle = await enqueuing
        job = await crew.end(handle)
        told = [record for record in caplog.records if str(handle.id) in record.getMessage()]
        assert len(told) == job.max_attempts
        assert {(one.name, one.levelname, one.exc_info) for one in told} == {
            ("taskforge.worker", "WARNING", None)
        }
        assert f"{job.job_type} failed, attempt 1 of {job.max_attempts}: " in told[0].getMessage()
        assert what in told[0].getMessage()
        assert len(told[0].getMessage()) < 500
        assert await crew.logs(handle.id) == []


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_many_failures_are_counted_instead_of_told(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    @crew.forge.job(max_attempts=1)
    async def fails(number: int) -> None:
        raise ValueError(number)

    worker = await crew.start(slots=50)
    handles = await fails.enqueue_many([(number,) for number in range(300)])
    for handle in handles:
        await crew.end(handle)

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]

    def counted() -> int:
        return sum(
            int(line.split()[0])
            for line in told()
            if "more attempts failed within a second" in line
        )

    await until(
        lambda: len([line for line in told() if "attempt 1 of 1" in line]) + counted() == 300
    )
    assert len(told()) < 150
    assert worker.executor.done == 300


async def test_what_the_apps_logging_raises_ends_no_slot(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    @crew.forge.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError

    monkeypatch.setattr("taskforge.worker.executor.logger.warning", lambda *_: 1 / 0)
    await crew.start(slots=1)
    for _ in range(2):
        assert (await crew.end(await fails.enqueue())).status == "failed"


async def test_what_a_process_logs_reaches_the_workers_logging_once(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    add_to(crew.forge)
    await crew.start()
    with caplog.at_level(logging.INFO):
        handle = await function(crew, "double").enqueue(4, note=" in full")
        await crew.end(handle)
    told = [record.getMessage() for record in caplog.records if record.name == "child"]
    assert told == ["doubling 4 in full"]
    assert [line.message for line in await crew.logs(handle.id)].count("doubling 4 in full") == 1


async def test_failure_hooks_may_be_async_and_end_with_the_jobs_time(crew: Crew) -> None:
    seen: list[str] = []

    @crew.forge.on_failure
    async def slow_hook(ctx: Context, error: BaseException) -> None:
        await asyncio.sleep(0 if str(error) == "quick" else 60)
        seen.append(str(error))

    @crew.forge.job(max_attempts=1, timeout=0.3)
    async def fails(why: str) -> None:
        raise ValueError(why)

    await crew.start(slots=1)
    for why in ("slow", "quick"):
        job = await crew.end(await fails.enqueue(why))
        assert (job.status, seen) == ("failed", ["quick"] if why == "quick" else [])


async def test_middleware_wraps_in_order_and_may_answer_itself(crew: Crew) -> None:
    steps: list[str] = []

    def layer(name: str) -> None:
        @crew.forge.middleware
        async def around(ctx: Context, call: Any) -> Any:
            steps.append(f"{name} in")
            try:
                return await call()
            finally:
                steps.append(f"{name} out")

    layer("outer")
    layer("inner")

    @crew.forge.middleware
    async def short_cut(ctx: Context, call: Any) -> Any:
        return "cached" if ctx.job.job_type == "shortened" else await call()

    @crew.forge.job()
    def plain() -> str:
        steps.append("handler")
        return "value"

    @crew.forge.job()
    async def shortened() -> str:
        raise AssertionError("never called")

    await crew.start()
    assert await (await plain.enqueue()).result(10) == "value"
    assert steps == ["outer in", "inner in", "handler", "inner out", "outer out"]
    assert await (await shortened.enqueue()).result(10) == "cached"


async def test_a_handler_that_is_gone_fails_the_attempt_with_that_message(crew: Crew) -> None:
    @crew.forge.job(max_attempts=1)
    async def renamed() -> None: ...

    await crew.start()
    del crew.forge.registry._handlers["renamed"]
    job = await crew.end(await renamed.enqueue())
    assert job.error is not None
    assert (job.error.type, "no handler for 'renamed'" in job.error.message) == ("NoHandler", True)


async def test_a_type_that_nobody_handles_waits(crew: Crew) -> None:
    other = TaskForge(settings=crew.forge.settings)

    @other.job()
    async def elsewhere() -> None: ...

    @crew.forge.job()
    async def here() -> None: ...

    await crew.start()
    async with other:
        waiting = await elsewhere.enqueue()
        await (await here.enqueue()).result(10)
        assert await waiting.status() == "pending"


async def test_a_renamed_handler_still_gets_jobs_of_its_old_names(crew: Crew) -> None:
    old = TaskForge(settings=crew.forge.settings)

    @old.job(job_type="mail.send")
    async def before(to: str) -> str:
        return "old"

    @crew.forge.job(job_type="email.deliver", aliases=("mail.send",))
    async def after(to: str) -> str:
        return f"new {to}"

    await crew.start()
    async with old:
        assert await (await before.enqueue("a")).result(10) == "new a"
