"""Enqueueing from applications: options, many at once, from plain code, after a fork; and the
queues that code declares."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Optional, TypedDict

import pytest

from taskforge import (
    Conflict,
    Context,
    Fail,
    Invalid,
    Job,
    NotFound,
    Retry,
    Snooze,
    StoreUnavailable,
    TaskForge,
)
from taskforge.domain.job import new_job
from taskforge.domain.queue import Queue
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.testing import Sandbox


@pytest.fixture
def forge(sqlite_url: str) -> TaskForge:
    forge = TaskForge(sqlite_url)

    @forge.job()
    async def work(number: int = 0) -> int:
        return number

    return forge


async def test_options_reach_the_job(forge: TaskForge) -> None:
    work = _function(forge)
    noon = datetime(2040, 1, 1, 12, tzinfo=UTC)
    async with Sandbox(forge) as box:
        await work.options(
            at=noon,
            priority=7,
            max_attempts=9,
            timeout=3,
            tags=("a",),
            requires={"gpu": True},
            deadline=noon + timedelta(days=1),
        ).enqueue(1)
        [job] = [one.job for one in box.enqueued()]
        assert (
            job.scheduled_for,
            job.priority,
            job.max_attempts,
            job.timeout_seconds,
            job.tags,
        ) == (noon, 7, 9, 3, ("a",))
        assert (job.timeout_at, job.requires) == (noon + timedelta(days=1), {"gpu": True})
        with pytest.raises(Invalid, match="together with at"):
            await work.options(at=noon, delay=4).enqueue()
        with pytest.raises(Invalid, match="time zone"):
            await work.options(at=datetime(2040, 1, 1)).enqueue()  # noqa: DTZ001
        with pytest.raises(NotFound, match="did you mean 'default'"):
            await work.options(queue="defautl").enqueue()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0}, "timeout_seconds: is 0"),
        ({"max_attempts": 0}, "max_attempts: is 0"),
        ({"tags": "urgent"}, "tags: is a str"),
    ],
)
async def test_options_that_break_a_rule_are_refused(
    forge: TaskForge, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        _function(forge).options(**options).build(1)
    with pytest.raises(Invalid, match=problem):

        @forge.job(**options)
        async def other() -> None: ...

    assert forge.registry.get("other") is None


async def test_a_class_that_is_not_registered_does_not_run_as_its_parent(forge: TaskForge) -> None:
    @forge.add
    class Copy(Job):
        job_type = "copy"
        source: str

        async def execute(self, ctx: Context) -> None: ...

    class Move(Copy):
        pass

    assert forge.build(Copy(source="a")).job_type == "copy"
    with pytest.raises(
        Invalid, match="Move: is not registered, the job type 'copy' is that of Copy"
    ):
        forge.build(Move(source="a"))


async def test_unique_jobs_and_idempotency_keys(forge: TaskForge) -> None:
    work = _function(forge)
    async with Sandbox(forge) as box:
        first = await work.options(unique="u").enqueue(1)
        second = await work.options(unique="u").enqueue(2)
        assert (first.id == second.id, first.existed, second.existed) == (True, False, True)
        await box.run()
        assert not (await work.options(unique="u").enqueue(3)).existed
        once = await work.options(idempotency_key="k").enqueue(1)
        assert (await work.options(idempotency_key="k").enqueue(1)).id == once.id
        with pytest.raises(Conflict, match="different body"):
            await work.options(idempotency_key="k").enqueue(2)


async def test_many_in_one_go(forge: TaskForge) -> None:
    work = _function(forge)
    async with Sandbox(forge) as box:
        handles = await work.enqueue_many([(1,), {"number": 2}, ()])
        await box.run()
        assert [await handle.result(1) for handle in handles] == [1, 2, 0]
        await forge.enqueue_many([work.build(4), work.options(priority=2).build(5)])
        assert [one.arguments["number"] for one in box.enqueued()] == [4, 5]
        with pytest.raises(Invalid):
            await work.enqueue_many([(1,), ("two",)])
        for wrong in ("7", b"7", 7):
            with pytest.raises(
                Invalid,
                match=r"calls: has b?'?7'? where the arguments of a job belong; use a tuple or "
                r"a mapping",
            ):
                await work.enqueue_many([[3], wrong])


async def test_waiting_for_results(forge: TaskForge) -> None:
    work = _function(forge)
    async with Sandbox(forge) as box:
        handle = await work.enqueue(3)
        with pytest.raises(TimeoutError, match="has not ended after"):
            await handle.result(0.05)
        # whoever gave up is forgotten
        assert not forge._connections._waiters[asyncio.get_running_loop()]._waiting
        waiting = [asyncio.create_task(handle.result(10)) for _ in range(5)]
        await asyncio.sleep(0.02)
        await box.run()
        assert await asyncio.gather(*waiting) == [3] * 5
        cancelled = await work.options(delay=60).enqueue()
        await cancelled.cancel("not wanted")
        assert (await cancelled.job()).reason == "not wanted"


async def test_a_job_that_has_ended_needs_no_time(forge: TaskForge) -> None:
    async with Sandbox(forge) as box:
        handle = await _function(forge).enqueue(3)
        with pytest.raises(TimeoutError, match="has not ended"):
            await handle.result(0)
        await box.run()
        assert await handle.result(0) == 3


async def test_results_and_the_types_that_handlers_declare(forge: TaskForge) -> None:
    @forge.job()
    async def text() -> str | Retry:
        return "done"

    @forge.job()
    async def nothing() -> Optional[bytes] | Snooze | Fail:  # noqa: UP045
        return b"done"

    @forge.job()
    async def anything() -> object:
        return {"a": 1}

    @forge.job()
    async def unclear() -> dict[str, int] | TypedDict("Told", {"a": int}):  # type: ignore[valid-type]
        return {"a": 1}

    @forge.job()
    async def wrong() -> list[int] | Retry:
        return "done"  # type: ignore[return-value]

    async with Sandbox(forge) as box:
        handles: list[Any] = [
            await one.enqueue() for one in (text, nothing, anything, unclear, wrong)
        ]
        await box.run()
        assert [await handle.result(1) for handle in handles[:4]] == [
            "done",
            b"done",
            {"a": 1},
            {"a": 1},
        ]
        with pytest.raises(
            Invalid, match=r"\(wrong\) is not the list\[int\] that its handler declares"
        ):
            await handles[4].result(1)


async def test_waits_that_begin_while_another_looks(forge: TaskForge) -> None:
    work = _function(forge)
    async with Sandbox(forge, slots=5) as box:
        handles = [await work.enqueue(number) for number in range(30)]
        waiting = []
        for handle in handles:  # a look takes a moment; some of these begin within it
            waiting.append(asyncio.create_task(handle.result(10)))
            await asyncio.sleep(0.001)
        await box.run()
        assert await asyncio.gather(*waiting) == list(range(30))


def test_the_sync_face_in_a_script_and_after_a_fork(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        """
import os
from taskforge import TaskForge

forge = TaskForge("sqlite:///jobs.db")

@forge.job()
async def work(number: int) -> int:
    return number

first = forge.sync(work.enqueue(1))
child = os.fork()
if child == 0:
    forge.sync(work.enqueue(2))
    os._exit(0)
status = os.waitpid(child, 0)[1]
forge.sync(work.enqueue(3))
child = os.fork()
if child == 0:
    forge.close_sync()
    os._exit(0)
os.waitpid(child, 0)
print(status, forge.sync(first.status()))
forge.close_sync()
forge.sync(work.enqueue(4))
"""
    )
    command = [sys.executable, "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["0", "pending"], done
    import sqlite3

    connection = sqlite3.connect(tmp_path / "jobs.db")
    assert connection.execute("select count(*) from ready").fetchone() == (4,)
    connection.close()


def test_threads_share_the_loop_behind_sync(forge: TaskForge) -> None:
    threads, together = 8, threading.Barrier(8)

    def ask(_: int) -> asyncio.AbstractEventLoop:
        together.wait()
        return forge.hidden_loop()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            assert len(set(pool.map(ask, range(threads)))) == 1
    finally:
        sys.setswitchinterval(before)
        forge.close_sync()


async def test_a_relative_file_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here #1?", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    forge = TaskForge("sqlite:///a%20b.db?project=default")
    assert forge.settings.url == "sqlite:///a%20b.db?project=default"
    monkeypatch.chdir(there)
    async with forge:
        pass
    assert ((here / "a b.db").exists(), list(there.iterdir())) == (True, [])
    with pytest.raises(Invalid, match="three or four slashes"):
        await TaskForge("sqlite://jobs.db").engine()


async def test_sync_inside_an_event_loop_is_refused_with_advice(forge: TaskForge) -> None:
    with pytest.raises(RuntimeError, match="await the call instead"):
        forge.sync(_function(forge).enqueue(1))


async def test_declared_queues_are_made_and_merged(settings: dict[str, Any]) -> None:
    first = TaskForge(**settings)
    first.queue(
        "emails", max_concurrent_jobs=5, priority=4, description="mail", dead_letter_queue="lost"
    )
    async with first:
        made = await _queues(first)
        assert made["emails"].settings.max_concurrent_jobs == 5
        assert made["emails"].settings.dead_letter_queue_id == made["lost"].id
        assert (made["emails"].priority, made["emails"].description) == (4, "mail")
    second = TaskForge(**settings)
    second.queue("emails", max_retries=7)
    async with second:
        merged = (await _queues(second))["emails"]
        assert (
            merged.settings.max_retries,
            merged.settings.max_concurrent_jobs,
            merged.priority,
        ) == (7, 5, 4)
        assert merged.settings.dead_letter_queue_id == made["lost"].id
    async with TaskForge(**settings) as third:  # nothing to change: nothing is written
        assert (await _queues(third))["emails"].version == merged.version


async def test_queues_that_are_declared_later_are_made_at_the_next_use(
    settings: dict[str, Any],
) -> None:
    forge = TaskForge(**settings)
    async with forge:
        engine = await forge.engine()

        @forge.job(queue="reports")
        async def report() -> None: ...

        assert not (await report.enqueue()).existed
        forge.queue("reports", max_retries=7, dead_letter_queue="lost")
        queues = await _queues(forge)
        assert queues["reports"].settings.max_retries == 7
        assert queues["reports"].settings.dead_letter_queue_id == queues["lost"].id
        assert await forge.engine() is engine


async def test_what_was_brought_about_is_not_asked_for_again(
    forge: TaskForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with forge:
        engine = await forge.engine()
        asked: list[str] = []
        find_queues = engine.directory.find_queues

        async def find(projects: Sequence[int], name: str) -> Any:
            asked.append(name)
            return await find_queues(projects, name)

        monkeypatch.setattr(engine.directory, "find_queues", find)
        await forge.enqueue_many([_function(forge).build()])
        assert asked == []
        forge.queue("one")
        await asyncio.gather(*(forge.engine() for _ in range(5)))
        assert asked == ["one"]


async def test_many_processes_may_declare_the_same_queues_at_once(settings: dict[str, Any]) -> None:
    async def declare(number: int) -> None:
        forge = TaskForge(**settings)
        forge.queue("shared", max_concurrent_jobs=3, dead_letter_queue="lost")
        async with forge:
            await forge.insert(new_job("shared", "work", number))

    async with TaskForge(**settings):
        pass
    await asyncio.gather(*(declare(number) for number in range(6)))
    async with TaskForge(**settings) as forge:
        assert {"shared", "lost"} <= (await _queues(forge)).keys()


def test_bad_queue_settings_are_refused_where_they_are_written(forge: TaskForge) -> None:
    with pytest.raises(Invalid, match="did you mean 'max_concurrent_jobs'"):
        forge.queue("emails", max_concurent_jobs=5)


async def test_dead_letter_queues_of_dead_letter_queues(forge: TaskForge) -> None:
    forge.queue("a", dead_letter_queue="b")
    forge.queue("b", dead_letter_queue="c")
    forge.queue("c", dead_letter_queue="d")
    async with forge:
        queues = await _queues(forge)
        ids = [queues[name].settings.dead_letter_queue_id for name in "abcd"]
        assert ids == [queues["b"].id, queues["c"].id, queues["d"].id, None]
    for name, target in (("d", "a"), ("e", "e")):
        with pytest.raises(Invalid, match=f"leads from '{name}' back to it"):
            forge.queue(name, dead_letter_queue=target)


async def test_a_store_that_cannot_be_prepared_is_tried_again(forge: TaskForge) -> None:
    """An app whose queues could not be declared must not go on as if they had been."""
    calls: list[int] = []
    bring_about = forge._declared.bring_about

    async def once_broken(engine: Any, project: int, since: int = 0) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("away")
        return await bring_about(engine, project, since)

    forge._declared.bring_about = once_broken  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        await forge.engine()
    async with forge:
        assert "default" in await _queues(forge)


async def test_an_engine_that_refuses_to_open_is_closed(forge: TaskForge) -> None:
    class Refusing:
        closed = False

        async def open(self) -> None:
            raise StoreUnavailable("not now")

        async def close(self) -> None:
            self.closed = True

    engine = Refusing()
    forge.use(forge.connections(lambda: engine))  # type: ignore[arg-type, return-value]
    with pytest.raises(StoreUnavailable, match="not now"):
        await forge.engine()
    assert engine.closed


async def test_a_job_by_the_text_of_its_id(settings: dict[str, Any]) -> None:
    async with TaskForge(**settings) as forge:

        @forge.job(queue="later")
        async def work() -> None: ...

        known = await work.options(delay=60).enqueue()
        assert (await forge.get(str(known.id))).id == known.id
        handle = forge.handle(str(known.id))
        assert (handle.id, await handle.status()) == (known.id, "scheduled")
        await forge.cancel(str(known.id), "not wanted")
        assert (await forge.wait(str(known.id))).reason == "not wanted"
        for wrong in ("17", 17, None, known):
            for ask in (forge.get, forge.wait, forge.cancel):
                with pytest.raises(
                    Invalid, match=r"job: is .*, not the id of a job; use a handle's id"
                ):
                    await ask(wrong)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match="not the id of a job"):
                forge.handle(wrong)  # type: ignore[arg-type]


async def _queues(forge: TaskForge) -> dict[str, Queue]:
    return {queue.name: queue for queue in await (await forge.engine()).queues([FIRST_PROJECT])}


def _function(forge: TaskForge) -> Any:
    from taskforge.sdk.jobs import JobFunction

    handler = forge.registry.get("work")
    assert handler is not None
    return JobFunction(forge, handler)


async def test_whoever_waits_hears_that_the_app_was_closed(tmp_path: Path) -> None:
    forge = TaskForge(f"sqlite:///{tmp_path}/jobs.db")

    @forge.job()
    async def nobody_runs_it() -> None: ...

    waiting = asyncio.create_task((await nobody_runs_it.enqueue()).result(20))
    await asyncio.sleep(0.1)
    await forge.close()
    with pytest.raises(StoreUnavailable, match="the app was closed"):
        await waiting


early = TaskForge()


@dataclass
class Early:
    later: "Later"


@early.job()
async def in_parts() -> Early:
    return Early(Later(1))


@dataclass
class Later:
    number: int


async def test_a_result_may_be_of_a_type_whose_parts_come_later() -> None:
    async with Sandbox(early) as box:
        handle = await in_parts.enqueue()
        await box.run()
        assert await handle.result(0) == Early(Later(1))
