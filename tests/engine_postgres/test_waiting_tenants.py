"""Tenants whose workers wait at a server: a job of one of them is no business of the others."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.job import Claimed, Inserted, new_job
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.operations.work import claim_desk
from taskforge.operations.work.claim_desk import ClaimDesk
from tests.support.stores import PostgresStore
from tests.support.world import Clock

TENANTS = 40


async def claims_for_one_job(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, *, is_told: bool
) -> int:
    """How often the store is asked when a job comes for one tenant, and when something else changes
    besides."""
    monkeypatch.setattr(claim_desk, "POLL_SECONDS", 60.0)
    store, clock = PostgresStore(postgres_url), Clock()
    engine: Any = await store.open(clock)
    other: Any = await store.open(clock)
    projects = [await store.probe.add_project(f"tenant-{number}") for number in range(TENANTS)]
    workers: list[UUID] = []
    for project in projects:
        await engine.change_queue(project, CreateQueue(name="default"))
        workers.append((await engine.register(project, NewWorker(name="w"), 60)).incarnation)
    desk = ClaimDesk(engine)
    running = asyncio.create_task(desk.run())
    await asyncio.sleep(0)
    waiting = [
        asyncio.create_task(
            desk.claim(
                Claim(worker, 1, remote=True),
                project,
                30.0,
                lambda: lambda: None,
                project if is_told else None,
            )
        )
        for project, worker in zip(projects, workers, strict=True)
    ]
    async with asyncio.timeout(20):
        while desk.waiting < TENANTS or not engine._signals.hears:
            await asyncio.sleep(0.01)
        # what came while they began to listen is over
        while desk._work.is_set() or any(one.serving.locked() for one in desk._groups.values()):
            await asyncio.sleep(0.05)
        asked: list[Claim] = []
        right = engine.claim

        async def counted(claim: Claim) -> list[Claimed]:
            asked.append(claim)
            found: list[Claimed] = await right(claim)
            return found

        monkeypatch.setattr(engine, "claim", counted)
        [made] = await other.insert(projects[7], [new_job("default", "work")])
        assert isinstance(made, Inserted)
        [job] = await waiting[7]
        assert job.queue == "default"
        for_one = len(asked)
        # What names nobody is for all: a queue that is resumed, room under a limit.
        asked.clear()
        other._signals.send_room()
        while len({claim.incarnation for claim in asked}) < TENANTS - 1:
            await asyncio.sleep(0.01)
    for one in (running, *waiting):
        one.cancel()
    await asyncio.gather(running, *waiting, return_exceptions=True)
    await store.close()
    return for_one


@pytest.mark.timeout(90)
async def test_a_job_of_one_tenant_asks_the_store_for_that_one(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await claims_for_one_job(postgres_url, monkeypatch, is_told=True) <= 4


@pytest.mark.timeout(90)
async def test_where_it_is_not_known_whose_jobs_they_are_all_ask(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what was done before."""
    assert await claims_for_one_job(postgres_url, monkeypatch, is_told=False) >= 5
