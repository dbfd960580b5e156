"""taskforge.testing, as a user would use it."""

import asyncio
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskforge import Context, Invalid, Job, Retry, Skip, Snooze, TaskForge, WorkerManager
from taskforge.testing import Sandbox

# never reached: the sandbox takes its place
forge = TaskForge("postgresql://nobody@127.0.0.1:1/nowhere")
forge.queue("emails", dead_letter_queue="lost-mail", retry_delay_seconds=10, retry_jitter=0)
sent: list[str] = []


@forge.job(queue="emails", priority=3, tags=("mail",))
async def send(to: str, subject: str = "hello") -> str:
    if to == "broken":
        raise ValueError("no such address")
    sent.append(to)
    return f"sent to {to}"


@forge.job()
def spread(ctx: Context, names: list[str]) -> int:
    ctx.log("spreading")
    for name in names:
        forge.sync(send.enqueue(name))
    return len(names)


@forge.job()
async def waits_for_another() -> str:
    return await (await send.enqueue("child")).result(5)


@forge.job()
async def verdict(what: str) -> object:
    return {"snooze": Snooze(60), "retry": Retry(30), "skip": Skip()}[what]


@forge.job()
async def forever() -> None:
    await forever.enqueue()


@forge.add
class Resize(Job):
    queue = "images"
    width: int
    height: int = 10

    async def execute(self, ctx: Context) -> int:
        return self.width * self.height


async def test_jobs_run_inline_and_their_results_are_there() -> None:
    async with Sandbox(forge) as box:
        handle = await send.enqueue("a@b")
        [job] = await box.run()
        assert (job.id, job.status, await handle.result(1)) == (
            handle.id,
            "succeeded",
            "sent to a@b",
        )
        assert box.jobs(status="succeeded") == [job]
        assert box.enqueued() == []


async def test_what_was_enqueued_can_be_asserted() -> None:
    async with Sandbox(forge) as box:
        await send.enqueue("a@b")
        await send.options(delay=60, priority=9).enqueue("c@d", subject="later")
        await forge.enqueue(Resize(width=3))
        [first, second] = box.enqueued(send)
        assert first.arguments == {"to": "a@b", "subject": "hello"}
        assert second.scheduled_for is not None
        box.assert_enqueued(send, to="a@b", queue="emails", priority=3, tags=("mail",))
        box.assert_enqueued(send, subject="later", priority=9)
        box.assert_enqueued(Resize, width=3, height=10, queue="images")
        box.assert_enqueued("send", count=2)
        box.assert_enqueued(spread, count=0)
        box.assert_enqueued(count=3)


async def test_a_failed_assertion_says_what_was_there() -> None:
    async with Sandbox(forge) as box:
        with pytest.raises(
            AssertionError, match=r"no job send\(to='x'\) is waiting\. Waiting: nothing"
        ):
            box.assert_enqueued(send, to="x")
        await send.enqueue("a@b")
        with pytest.raises(
            AssertionError, match=r"send\(to='a@b', subject='hello'\) in queue 'emails', priority 3"
        ):
            box.assert_enqueued(send, to="x")
        with pytest.raises(AssertionError, match=r"1 jobs .* not 2"):
            box.assert_enqueued(send, count=2)
        with pytest.raises(Invalid, match="tox"):
            box.assert_enqueued(send, tox="a@b")


async def test_arguments_that_are_called_like_the_assertions_own() -> None:
    app = TaskForge()

    @app.job()
    async def draw(to: str, count: int = 1, queue: str = "q") -> None: ...

    @app.job()
    async def call(arguments: list[int]) -> None: ...

    async with Sandbox(app) as box:
        await draw.enqueue("a", count=7)
        await call.enqueue([1])
        for count in (1, 7):
            with pytest.raises(
                Invalid, match=r"count: is an argument of draw too; .* arguments=\{'count': …\}"
            ):
                box.assert_enqueued(draw, to="a", count=count)
        box.assert_enqueued(draw, arguments={"count": 7, "queue": "q"}, to="a")
        box.assert_enqueued(draw, arguments={"count": 7}, count=1)
        with pytest.raises(AssertionError, match=r"no job draw\(count=1, to='a'\)"):
            box.assert_enqueued(draw, arguments={"count": 1}, to="a")
        with pytest.raises(Invalid, match="priority: is no argument of draw"):
            box.assert_enqueued(draw, arguments={"priority": 0})
        with pytest.raises(Invalid, match="arguments: is an argument of call too"):
            box.assert_enqueued(call, arguments={"a": 1})
        box.assert_enqueued(call, arguments={"arguments": [1]})
        with pytest.raises(TypeError, match="positional"):
            box.assert_enqueued(draw, 1)  # type: ignore[misc]


async def test_a_job_that_waits_to_be_tried_again_says_why() -> None:
    async with Sandbox(forge) as box:
        handle = await send.enqueue("broken")
        [waiting] = box.enqueued()
        assert box.executions(handle) == []
        for _ in range(2):
            [job] = await box.run()
            await box.advance(20)
        for asked in (handle, handle.id, job, waiting):
            tries = box.executions(asked)
            assert [(one.attempt_number, one.error.message) for one in tries if one.error] == [
                (1, "no such address"),
                (2, "no such address"),
            ]


async def test_time_is_the_tests_to_move() -> None:
    start = datetime(2031, 5, 1, tzinfo=UTC)
    async with Sandbox(forge, start=start) as box:
        assert 0 <= (box.now - start).total_seconds() < 60
        handle = await send.options(delay=3_600).enqueue("later")
        expires = await send.options(delay=7_200, expires=7_000).enqueue("never")
        assert await box.run() == []
        await box.advance(3_600)
        [job] = await box.run()
        assert (job.id, job.status) == (handle.id, "succeeded")
        await box.advance(4_000)
        assert (await expires.job()).reason == "expired"


async def test_retries_wait_as_they_would_and_end_in_the_dead_letter_queue() -> None:
    async with Sandbox(forge) as box:
        handle = await send.enqueue("broken")
        for delay in (10, 20):
            [job] = await box.run()
            assert (job.status, job.scheduled_for is not None) == ("scheduled", True)
            await box.advance(delay - 5)
            assert await box.run() == []
            await box.advance(5)
        [job] = await box.run()
        assert (job.id, job.queue, job.origin_queue) == (handle.id, "lost-mail", "emails")
        assert await box.run() == []
        [job] = await box.run(queues=("lost-mail",))
        assert job.attempt_count == 1


async def test_verdicts_and_skips() -> None:
    async with Sandbox(forge) as box:
        await verdict.enqueue("snooze")
        await verdict.enqueue("retry")
        skipped = await verdict.enqueue("skip")
        snoozed, retried, waiting = await box.run()
        assert (snoozed.status, snoozed.attempt_count, retried.attempt_count) == ("scheduled", 0, 1)
        assert waiting.status == "pending"
        await box.advance(1)
        assert (await skipped.job()).reason == "skipped by every able worker"


async def test_one_at_a_time_and_children() -> None:
    async with Sandbox(forge) as box:
        assert await box.run_one() is None
        await spread.enqueue(["a", "b"])
        first = await box.run_one()
        assert first is not None
        assert first.job_type == "spread"
        assert [one.arguments["to"] for one in box.enqueued(send)] == ["a", "b"]
        assert len(await box.run()) == 2


async def test_a_handler_may_wait_for_another_job_given_a_second_slot() -> None:
    async with Sandbox(forge, slots=2) as box:
        handle = await waits_for_another.enqueue()
        await box.run()
        assert await handle.result(1) == "sent to child"


async def test_jobs_without_end_are_noticed() -> None:
    async with Sandbox(forge) as box:
        await forever.enqueue()
        with pytest.raises(RuntimeError, match="30 jobs ran"):
            await box.run(most=30)


async def test_requirements_are_met_by_the_sandboxs_capabilities() -> None:
    async with Sandbox(forge) as box:
        await send.options(requires={"gpu": True}).enqueue("gpu")
        assert await box.run() == []
    async with Sandbox(forge, capabilities={"gpu": True}) as box:
        await send.options(requires={"gpu": True}).enqueue("gpu")
        assert len(await box.run()) == 1


async def test_two_sandboxes_share_nothing_and_the_app_is_as_before() -> None:
    before = forge._connections
    async with Sandbox(forge) as box:
        await send.enqueue("one")
        folder = box._folder
        assert folder is not None
    assert not folder.exists()
    async with Sandbox(forge) as box:
        assert box.jobs() == []
    assert forge._connections is before


async def test_a_worker_does_not_open_the_apps_own_store_from_within_a_sandbox(
    tmp_path: Path,
) -> None:
    own = TaskForge(f"sqlite:///{tmp_path}/real.db")

    @own.job()
    async def work() -> None: ...

    async with Sandbox(own):
        for run in (own.work, own.worker, WorkerManager(own).start):
            with pytest.raises(Invalid, match=r"inside a Sandbox jobs are run with box\.run\(\)"):
                await run()
    assert list(tmp_path.iterdir()) == []
    await own.worker()
    await own.close()


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_running_job_hears_that_it_is_cancelled(kind: str) -> None:
    app, started, seen = TaskForge(), threading.Event(), threading.Event()

    async def waits() -> None:
        started.set()
        await asyncio.sleep(60)

    def looks(ctx: Context) -> None:
        started.set()
        give_up = time.monotonic() + 10
        while not ctx.cancelled and time.monotonic() < give_up:
            time.sleep(0.005)
        seen.set()

    handler = app.job()(waits) if kind == "async" else app.job()(looks)
    async with Sandbox(app) as box:
        handle = await handler.enqueue()
        running = asyncio.create_task(box.run())
        await asyncio.to_thread(started.wait, 5)
        await handle.cancel()
        [job] = await asyncio.wait_for(running, 5)
        assert (job.status, job.reason) == ("cancelled", "cancelled by request")
    assert kind == "async" or seen.wait(5)


@pytest.mark.parametrize("is_async", [False, True])
def test_apps_that_were_in_a_sandbox_leave_nothing_behind(is_async: bool) -> None:
    def once() -> None:
        app = TaskForge()
        work = app.job()(_nothing)
        with Sandbox(app) as box:
            app.sync(work.enqueue())
            assert len(app.sync(box.run())) == 1

    async def once_async() -> None:
        app = TaskForge()
        work = app.job()(_nothing)
        async with Sandbox(app) as box:
            await work.enqueue()
            box.assert_enqueued(work)
            assert len(await box.run()) == 1

    before = set(threading.enumerate()), _descriptors()
    for _ in range(3):
        asyncio.run(once_async()) if is_async else once()
    assert (set(threading.enumerate()), _descriptors()) == before


async def _nothing() -> None: ...


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_an_app_that_was_connected_before_stays_connected(tmp_path: Path) -> None:
    own = TaskForge(f"sqlite:///{tmp_path}/real.db")
    engine = own.sync(own.engine())
    with Sandbox(own) as box:
        assert box.jobs() == []
    assert own.sync(own.engine()) is engine
    own.close_sync()


def test_code_that_is_not_async_can_use_it_too() -> None:
    with Sandbox(forge) as box:
        forge.sync(send.enqueue("plain"))
        box.assert_enqueued(send, to="plain")
        [job] = forge.sync(box.run())
        assert job.status == "succeeded"


async def test_a_plain_with_in_async_code_does_not_block() -> None:
    with Sandbox(forge) as box:
        await send.enqueue("a@b")
        assert len(await box.run()) == 1


def test_the_plugin_gives_a_sandbox_to_async_and_plain_tests(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(
        """
import asyncio
import pytest
from taskforge import TaskForge

forge = TaskForge("postgresql://nobody@127.0.0.1:1/nowhere")

@forge.job()
async def hello(name: str) -> str:
    return f"hello {name}"

def test_plain(taskforge_sandbox):
    box = taskforge_sandbox(forge)
    forge.sync(hello.enqueue("you"))
    box.assert_enqueued(hello, name="you")
    [job] = forge.sync(box.run())
    assert job.status == "succeeded"

@pytest.mark.asyncio
async def test_async(taskforge_sandbox):
    box = taskforge_sandbox(forge, slots=2)
    assert box.jobs() == []
    handle = await hello.enqueue("me")
    await box.run()
    assert await handle.result(5) == "hello me"

def test_run(taskforge_sandbox):
    box = taskforge_sandbox(forge)
    async def body():
        await hello.enqueue("us")
        assert len(await box.run()) == 1
    asyncio.run(body())
"""
    )
    # By module, whether or not this checkout was installed since the entry point exists.
    plugin = ["-p", "no:taskforge", "-p", "taskforge.testing.plugin"]
    options = [
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    ]
    command = [sys.executable, "-m", "pytest", *options, *plugin, "test_users.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_loading_the_plugin_loads_nothing_else() -> None:
    code = (
        "import sys, taskforge.testing.plugin; print([m for m in ('asyncpg', 'msgspec', "
        "'psutil') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "[]"
