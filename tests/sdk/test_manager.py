"""The manager of an application's workers: what it starts it also ends, whatever goes wrong."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from taskforge import Context, CustomWorker, Invalid, TaskForge, WorkerManager
from taskforge.domain.job import new_job
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Worker
from taskforge.operations.upkeep import Upkeep
from taskforge.sdk.manager import IncomingJob
from tests.support.apps import OPTIONS
from tests.support.crew import PATIENCE, until


class Custom(CustomWorker):
    job_types = ("custom",)

    async def process_job(self, job: IncomingJob, ctx: Context) -> Any:
        return job.payload


class Particular(Custom):
    worker_type = "specialized_io"
    queues = ("default",)
    capabilities: ClassVar = {"disk": True}


@pytest.fixture
async def forge(sqlite_url: str) -> AsyncIterator[TaskForge]:
    forge = TaskForge(sqlite_url, **OPTIONS)

    @forge.job()
    async def work() -> int:
        return 1

    async with forge:
        before = asyncio.all_tasks()
        yield forge
        assert asyncio.all_tasks() - {asyncio.current_task()} <= before, (
            "something was left running"
        )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_concurrent_jobs": 0}, "max_concurrent_jobs: is 0"),
        ({"worker_id": "x" * 300}, "worker_id: has 300 characters"),
        ({"job_timeout": "long"}, "job_timeout: is a str"),
        ({"job_timeout": 0}, "job_timeout: is 0"),
        ({"retry_limit": -1}, "retry_limit: is -1"),
        ({"retry_limit": 1.5}, "retry_limit"),
        ({"cleanup_interval": 0}, "cleanup_interval"),
        ({"health_check_interval": -3}, "health_check_interval"),
        ({"worker_type": "strong"}, "worker_type: is 'strong'"),
        ({"queues": "default"}, "queues: is the text 'default'"),
        (
            {"job_timeut": 300},
            r"WorkerManager\(\).job_timeut: is not a known setting; did you mean 'job_timeout'",
        ),
        ({"retries": 3}, "did you mean 'retry_limit'"),
    ],
)
async def test_a_wrong_option_is_refused_where_it_is_given(
    forge: TaskForge, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        WorkerManager(forge, **options)


async def test_timeout_and_retries_are_the_defaults_of_jobs_that_name_none(
    forge: TaskForge,
) -> None:
    @forge.job()
    async def plain() -> None: ...

    @forge.job(timeout=7, max_attempts=1)
    async def particular() -> None: ...

    await plain.enqueue()  # what was made ready before must not be used again
    WorkerManager(forge, job_timeout=60, retry_limit=3)

    @forge.job()
    async def later() -> None: ...

    handles = [
        await plain.enqueue(),
        await particular.enqueue(),
        await plain.options(timeout=9, max_attempts=2).enqueue(),
        await later.enqueue(),
    ]
    found = [await handle.job() for handle in handles]
    assert [(job.timeout_seconds, job.max_attempts) for job in found] == [
        (60, 4),
        (7, 1),
        (9, 2),
        (60, 4),
    ]


async def test_a_job_that_came_without_a_timeout_runs_no_longer_than_the_managers(
    forge: TaskForge,
) -> None:
    @forge.job()
    async def endless() -> None:
        await asyncio.sleep(PATIENCE)

    class Endless(Custom):
        async def process_job(self, job: IncomingJob, ctx: Context) -> Any:
            await asyncio.sleep(PATIENCE)

    manager = WorkerManager(forge, job_timeout=0.2)
    manager.register("endless", Endless)
    await manager.start()
    jobs = [
        (await forge.insert(new_job("default", name, max_attempts=1))).job
        for name in ("endless", "custom")
    ]
    for job in jobs:
        async with asyncio.timeout(PATIENCE):
            ended = await forge.wait(job)
        assert ended.error is not None
        assert (ended.status, ended.error.type) == ("failed", "Timeout")
    await manager.shutdown()


async def test_its_intervals_are_kept(forge: TaskForge, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned, checked = 0, 0

    async def prune(_: Upkeep) -> None:
        nonlocal pruned
        pruned += 1

    class Checked(Custom):
        async def health_check(self) -> bool:
            nonlocal checked
            checked += 1
            return True

    monkeypatch.setattr(Upkeep, "_prune", prune)
    manager = WorkerManager(forge, cleanup_interval=0.1, health_check_interval=0.05)
    manager.register("checked", Checked)
    await manager.start()
    await until(lambda: pruned >= 3 and checked >= 3)
    await manager.shutdown()


async def test_a_comma_that_is_missing_is_named_and_nothing_is_stored(forge: TaskForge) -> None:
    class Forgetful(Custom):
        queues = "legacy"  # type: ignore[assignment]

    manager = WorkerManager(forge)
    manager.register("legacy", Forgetful)
    with pytest.raises(
        Invalid, match=r"queues: is the text 'legacy', not a list of names; use a list such as \("
    ):
        await manager.start()
    with pytest.raises(Invalid, match="queues: is the text 'default'"):
        await forge.work(queues="default")
    assert all(
        worker.queues is None for worker in await (await forge.engine()).workers([FIRST_PROJECT])
    )


@pytest.mark.parametrize("turns", [0, 1, 20])
async def test_shutdown_while_starting(forge: TaskForge, turns: int) -> None:
    manager = WorkerManager(forge)
    starting = asyncio.create_task(manager.start())
    for _ in range(turns + 1):
        await asyncio.sleep(0)
    await manager.shutdown()
    await starting


async def test_shutdown_while_connecting(sqlite_url: str) -> None:
    forge = TaskForge(sqlite_url, **OPTIONS)
    manager = WorkerManager(forge)
    manager.register("custom", Custom)
    starting = asyncio.create_task(manager.start())
    await asyncio.sleep(0)
    await manager.shutdown()
    async with asyncio.timeout(PATIENCE):
        await starting
    assert await _workers(forge) == []
    await forge.close()


async def test_a_factory_that_fails_leaves_nothing_behind(forge: TaskForge) -> None:
    made: list[Custom | None] = [Custom(), None]

    def factory() -> CustomWorker:
        custom = made.pop()
        if custom is None:
            raise OSError("no device")
        return custom

    manager = WorkerManager(forge)
    manager.register("custom", factory)
    with pytest.raises(OSError, match="no device"):
        await manager.start()
    await manager.start()
    assert sorted(str(one.role) for one in await _workers(forge)) == ["None", "custom"]
    with pytest.raises(Invalid, match="twice"):
        await manager.start()
    await manager.shutdown()


async def test_what_a_custom_worker_says_goes_before_what_the_manager_says(
    forge: TaskForge,
) -> None:
    forge.queue("other")
    manager = WorkerManager(
        forge,
        worker_id="w",
        queues=("default", "other"),
        capabilities={"gpu": True},
        worker_type="specialized_gpu",
        role="main",
    )
    manager.register("plain", Custom)
    manager.register("particular", Particular)
    await manager.start()
    found = {
        one.name: (one.role, one.worker_type, one.queues, one.capabilities)
        for one in await _workers(forge)
    }
    await manager.shutdown()
    assert found == {
        "w": ("main", "specialized_gpu", ("default", "other"), {"gpu": True}),
        "w-plain": ("plain", "specialized_gpu", ("default", "other"), {"gpu": True}),
        "w-particular": ("particular", "specialized_io", ("default",), {"disk": True}),
    }


async def test_a_fault_in_the_upkeep_ends_the_workers(
    forge: TaskForge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fault = asyncio.Event()

    async def break_later(_: Upkeep) -> None:
        await fault.wait()
        raise ZeroDivisionError

    monkeypatch.setattr(Upkeep, "run", break_later)
    started, release = asyncio.Event(), asyncio.Event()

    @forge.job()
    async def slow() -> None:
        started.set()
        await release.wait()

    manager = WorkerManager(forge)
    await manager.start()
    handle = await slow.enqueue()
    await started.wait()
    fault.set()
    with caplog.at_level(logging.ERROR, "taskforge.sdk"):
        await until(lambda: "the upkeep failed" in caplog.text)
    asyncio.get_running_loop().call_later(0.3, release.set)  # the grace time is theirs all the same
    with pytest.raises(ZeroDivisionError):
        await manager.shutdown()
    assert await handle.status() == "succeeded"
    await manager.shutdown()


async def test_a_fault_in_the_upkeep_ends_work(
    forge: TaskForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Upkeep) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Upkeep, "run", broken)
    with pytest.raises(ZeroDivisionError):
        await forge.work()


async def _workers(forge: TaskForge) -> list[Worker]:
    return await (await forge.engine()).workers([FIRST_PROJECT])
