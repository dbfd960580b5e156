"""Events from Python, on a store: those of some queues, what is enqueued in sums."""

import asyncio
from pathlib import Path

import pytest

from taskforge import TaskForge
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.query import FIRST


async def test_events_of_some_queues(tmp_path: Path) -> None:
    forge = TaskForge(f"sqlite:///{tmp_path}/jobs.db")
    forge.queue("mail")
    forge.queue("other")

    @forge.job(queue="mail")
    async def send(number: int) -> None: ...

    @forge.job(queue="other")
    async def sweep() -> None: ...

    async with forge, asyncio.timeout(20):
        await sweep.enqueue()
        await send.enqueue_many([{"number": one} for one in range(3)])
        async for event in forge.events("job.", queues=["mail"], after=FIRST):
            assert (event.topic, event.queue) == ("job.enqueued", "mail")
            assert (event.count, event.jobs) == (3, ())
            assert list(event.details["types"].values()) == [3]
            break
        with pytest.raises(NotFound, match="mail"):
            await anext(forge.events(queues=["mial"]))
        with pytest.raises(Invalid, match="queues"):
            await anext(forge.events(queues="mail"))


async def test_what_is_enqueued_is_told_when_its_process_ends(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    forge = TaskForge(url)

    @forge.job
    async def send() -> None: ...

    async with forge:
        await send.enqueue()
    async with TaskForge(url) as other, asyncio.timeout(20):
        async for event in other.events("job.enqueued", after=FIRST):
            assert event.count == 1
            break
