"""Schedules from Python, on a store and through a server: `forge.schedules`, those that the code
declares, and `forge.events()`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskforge import TaskForge
from taskforge.domain.errors import Conflict, Invalid, NotFound
from taskforge.domain.schedule import Overlap


@pytest.fixture(params=["sqlite", "http"])
async def where(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """What to give to TaskForge()."""
    if request.param == "sqlite":
        yield {"url": f"sqlite:///{tmp_path}/jobs.db"}
    else:
        yield request.getfixturevalue("served")


@pytest.fixture
async def forge(where: dict[str, Any]) -> AsyncIterator[TaskForge]:
    app = TaskForge(**where)

    @app.job(queue="reports", priority=3)
    async def report(to: str = "everyone") -> None:
        pass

    async with app:
        yield app


async def test_a_schedule_is_made_edited_run_and_deleted(forge: TaskForge) -> None:
    made = await forge.schedules.create(
        "nightly", "report", {"to": "ada"}, queue="reports", cron="0 3 * * *", tz="Asia/Jakarta"
    )
    assert (made.timing.zone, made.job.queue, made.job.payload) == (
        "Asia/Jakarta",
        "reports",
        {"to": "ada"},
    )
    changed = await forge.schedules.edit("nightly", every_seconds=90.0, overlap="skip", priority=5)
    assert (changed.timing.cron, changed.timing.every_seconds) == (None, 90.0)
    assert (changed.timing.overlap, changed.job.priority) == (Overlap.SKIP, 5)
    assert changed.job.payload == {"to": "ada"}
    assert (await forge.schedules.pause("nightly")).next_at is None
    slot = await forge.schedules.run("nightly")
    assert slot.job is not None
    assert (await forge.get(slot.job)).job_type == "report"
    assert [one.manual for one in await forge.schedules.slots("nightly")] == [True]
    assert (await forge.schedules.resume("nightly")).next_at is not None
    assert len(await forge.schedules.preview("nightly", 3)) == 3
    assert [one.name for one in await forge.schedules.all()] == ["nightly"]
    await forge.schedules.delete("nightly")
    with pytest.raises(NotFound):
        await forge.schedules.get("nightly")


async def test_wrong_ones_are_refused_alike_through_every_door(forge: TaskForge) -> None:
    for options, field in (
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"cron": "@daily", "tz": "Mars/Base"}, "zone"),
        ({"every_seconds": 0}, "every_seconds"),
    ):
        with pytest.raises(Invalid) as refused:
            await forge.schedules.create("x", "report", queue="reports", **options)
        assert refused.value.field == field
    with pytest.raises(NotFound, match="reports"):
        await forge.schedules.create("x", "report", queue="report", cron="@daily")
    await forge.schedules.create("x", "report", queue="reports", cron="@daily")
    with pytest.raises(Conflict, match="already exists"):
        await forge.schedules.create("x", "report", queue="reports", cron="@daily")


async def test_code_declares_schedules_and_takes_them_back(where: dict[str, Any]) -> None:
    def app(cron: str, *names: str) -> TaskForge:
        made = TaskForge(**where)
        made.own_schedules("billing")
        for name in names:

            @made.schedule(cron, tz="Asia/Jakarta")
            @made.job(job_type=name, queue="reports")
            async def report() -> None:
                pass

        return made

    async with app("0 3 * * *", "one", "two") as first:
        found = await first.schedules.all()
        assert [one.name for one in found] == ["one", "two"]
        await first.schedules.create("by hand", "one", queue="reports", cron="@daily")
        await first.schedules.pause("two")
    async with app("0 4 * * *", "two") as second:
        found = await second.schedules.all()
        assert [(one.name, one.timing.cron) for one in found] == [
            ("two", "0 4 * * *"),
            ("by hand", "@daily"),
        ]
        assert found[0].is_paused  # an operator's wish outlives a deploy


async def test_a_declared_schedule_must_fit_its_handler() -> None:
    forge = TaskForge("sqlite:///unused.db")

    @forge.job
    async def needs(to: str) -> None:
        pass

    with pytest.raises(Exception, match="to"):
        forge.schedule("@daily")(needs)
    forge.schedule("@daily", payload={"to": "ada"})(needs)
    with pytest.raises(Invalid, match="twice"):
        forge.schedule("@hourly", payload={"to": "ada"})(needs)
    with pytest.raises(Invalid, match="is not above a handler"):
        forge.schedule("@hourly")(lambda: None)


async def test_events_are_an_async_iterator(forge: TaskForge) -> None:
    heard = asyncio.Queue[Any]()

    async def listen() -> None:
        async for event in forge.events("schedule."):
            await heard.put(event)

    listening = asyncio.create_task(listen())
    try:
        async with asyncio.timeout(20):
            for number in range(100):  # until the stream is there
                await forge.schedules.create(f"s{number}", "report", queue="reports", cron="@daily")
                try:
                    event = await asyncio.wait_for(heard.get(), 0.5)
                    break
                except TimeoutError:
                    continue
        assert event.topic == "schedule.created"
        assert event.details["name"].startswith("s")
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_a_schedule_is_renamed(forge: TaskForge) -> None:
    await forge.schedules.create("nightly", "report", queue="reports", cron="@daily")
    assert (await forge.schedules.edit("nightly", name="daily")).name == "daily"
    assert [one.name for one in await forge.schedules.all()] == ["daily"]
