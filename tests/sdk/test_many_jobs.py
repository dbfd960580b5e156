"""Many jobs, queues and workers from Python, on each kind of store and through a server."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from taskforge import TaskForge
from taskforge.domain.errors import Invalid, NotFound
from taskforge.sdk.many_jobs import ManyChanged


@pytest.fixture
async def forge(settings: dict[str, Any]) -> AsyncIterator[TaskForge]:
    app = TaskForge(**settings)
    app.queue("mail")
    app.queue("other")

    @app.job(queue="mail")
    async def send(number: int) -> int:
        return number

    @app.job(queue="other")
    async def sweep() -> None: ...

    async with app:
        await send.enqueue_many([{"number": one} for one in range(6)])
        await sweep.options(priority=7, tags=("nightly",)).enqueue()
        yield app


async def test_jobs_are_listed_by_each_filter_in_pages_and_whole(forge: TaskForge) -> None:
    jobs = forge.jobs
    mails = [job async for job in jobs.list(queue="mail", page_size=4)]
    assert len(mails) == 6
    assert mails == sorted(mails, key=lambda job: job.id, reverse=True)
    assert {job.payload for job in mails} == {None}
    whole = [job async for job in jobs.list(queue=["mail"], include=["payload"])]
    assert sorted(job.payload["number"] for job in whole) == [0, 1, 2, 3, 4, 5]
    [nightly] = [job async for job in jobs.list(tag="nightly")]
    for selection in ({"priority": 7}, {"job_type": "sweep"}, {"queue": "other"}):
        assert [job.id async for job in jobs.list(**selection)] == [nightly.id]  # type: ignore[misc]
    later = datetime.now(UTC) + timedelta(days=1)
    assert (await jobs.count(created_after=later)).count == 0
    assert (await jobs.count(created_before=later, status=["pending", "failed"])).count == 7
    first = await jobs.page(queue="mail", limit=4)
    behind = await jobs.page(queue="mail", limit=4, cursor=first.cursor)
    assert [job.id for job in first.jobs + behind.jobs] == [job.id for job in mails]
    named = await jobs.get([mails[2].id, str(mails[0].id)])
    assert [job.id for job in named] == [mails[2].id, mails[0].id]
    [stats] = await jobs.stats("mail")
    assert (stats.pending, (await forge.queues.stats("other")).pending) == (6, 1)


async def test_many_jobs_are_changed_by_filter_and_by_id(forge: TaskForge) -> None:
    jobs = forge.jobs
    assert await jobs.cancel(queue="mail", dry_run=True) == ManyChanged(6, 0)
    assert (await jobs.count(status="cancelled")).count == 0
    assert await jobs.cancel(queue="mail") == ManyChanged(6, 0)
    assert await jobs.cancel(queue="mail") == ManyChanged(0, 6)
    some = [job.id async for job in jobs.list(status="cancelled")][:2]
    assert await jobs.retry(some, dry_run=True) == ManyChanged(2, 0)
    assert await jobs.retry(some) == ManyChanged(2, 0)
    assert await jobs.move("other", queue="mail", status="pending") == ManyChanged(2, 0)
    assert (await jobs.count(queue="other")).count == 3
    assert await jobs.erase(status="cancelled") == ManyChanged(4, 0)
    assert await jobs.delete(everything=True) == ManyChanged(4, 3)
    assert await jobs.redrive(queue="other") == ManyChanged(0, 3)
    assert (await jobs.count()).count == 3


async def test_what_is_meant_must_be_said(forge: TaskForge) -> None:
    with pytest.raises(Invalid, match="everything=True"):
        await forge.jobs.cancel()
    with pytest.raises(Invalid, match="everything=True"):
        await forge.jobs.cancel([], queue="mail")
    with pytest.raises(Invalid, match="status"):
        await forge.jobs.count(status="faild")
    with pytest.raises(Invalid, match="is empty"):
        await forge.jobs.cancel(queue="mail", status=[])
    with pytest.raises(Invalid, match="filter"):
        await forge.jobs.count(kind="x")  # type: ignore[call-arg]
    with pytest.raises(NotFound, match="nowhere"):
        await forge.jobs.move("nowhere", queue="mail")


async def test_one_job_is_steered_by_its_handle(forge: TaskForge) -> None:
    [job] = (await forge.jobs.page(queue="other")).jobs
    handle = forge.handle(job.id)
    await handle.edit(priority=3, payload={"changed": True})
    found = await handle.job()
    assert (found.priority, found.payload) == (3, {"changed": True})
    with pytest.raises(NotFound, match="execution"):
        await handle.latest_execution()
    await handle.cancel()
    assert (await handle.retry()).status == "pending"
    await handle.cancel()
    await handle.erase()
    assert (await handle.job()).payload_erased
    await handle.delete()
    assert (await forge.jobs.count(queue="other")).count == 0


async def test_queues_and_workers_are_made_read_and_steered(forge: TaskForge) -> None:
    made = await forge.queues.create("slow", description="nightly work", max_concurrent_jobs=2)
    assert made.settings.max_concurrent_jobs == 2
    edited = await forge.queues.edit("slow", priority=3, max_retries=7)
    assert (edited.priority, edited.settings.max_concurrent_jobs) == (3, 2)
    assert not (await forge.queues.pause(made.id)).is_active
    assert (await forge.queues.resume("slow")).is_active
    assert {one.name for one in await forge.queues.all()} >= {"mail", "other", "slow"}
    await forge.queues.delete("slow")
    with pytest.raises(NotFound, match="slow"):
        await forge.queues.get("slow")
    worker = await forge.workers.register("press", max_concurrent_jobs=4)
    assert (await forge.workers.drain("press")).drain_mode
    assert not (await forge.workers.undrain(worker.id)).drain_mode
    assert (await forge.workers.edit("press", max_concurrent_jobs=2)).max_concurrent_jobs == 2
    assert [one.name for one in await forge.workers.all()] == ["press"]
    assert await forge.workers.all(healthy=True) == []
    assert (await forge.workers.stats("press")).completed == 0


async def test_a_bulk_change_stays_in_its_project(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    ours, theirs = TaskForge(url), TaskForge(url, project="theirs")
    await ours.engine()
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as store:
        store.execute(
            "insert into projects (id, organization, name, created_at) values (?, 1, 'theirs', 0)",
            (uuid4().bytes,),
        )
    async with ours, theirs:
        for app in (ours, theirs):
            app.queue("mail")
            send = app.job(queue="mail")(_send)
            await send.enqueue()
        [foreign] = (await theirs.jobs.page()).jobs
        assert await ours.jobs.cancel(everything=True) == ManyChanged(1, 0)
        assert await ours.jobs.cancel([foreign.id]) == ManyChanged(0, 1)
        assert (await theirs.jobs.count(status="pending")).count == 1
        assert await ours.jobs.get([foreign.id]) == []


async def _send() -> None: ...


def test_plain_code_walks_the_same_pages(sqlite_url: str) -> None:
    app = TaskForge(sqlite_url)
    app.queue("mail")
    send = app.job(queue="mail")(_send)
    ids = [app.sync(send.enqueue()).id for _ in range(3)]
    assert [job.id for job in app.jobs.list(page_size=2)] == ids[::-1]
    assert app.sync(app.jobs.count()).count == 3
    app.close_sync()
