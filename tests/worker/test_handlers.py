"""What surrounds a handler: failure hooks, middleware, names it had before, and what happens when there is none."""

import asyncio
from typing import Any

from taskforge import Context, Fail, TaskForge
from tests.worker.crew import Crew


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
