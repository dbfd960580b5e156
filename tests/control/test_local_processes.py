"""Worker processes of this machine by a scaling policy: bursts, long jobs, leaders that are
killed. The burst in full length is in tests/chaos/test_scaling_burst.py."""

from pathlib import Path
from uuid import uuid4

import pytest

from taskforge.domain.queue_scaling import ScalingNews
from tests.support.scaled_fleet import ScaledFleet

pytestmark = pytest.mark.rotates


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "sqlite":
        return {}
    url = request.getfixturevalue("postgres_url")
    return {"url": url, "schema": f"scaled_{uuid4().hex[:10]}"}


async def test_a_burst_scales_up_drains_and_scales_to_zero_and_no_attempt_is_spent(
    tmp_path: Path, store: dict[str, str]
) -> None:
    async with ScaledFleet(tmp_path, **store) as fleet:
        await fleet.scale(max_workers=2)
        fleet.lead()
        await fleet.naps(100, 0.05)
        await fleet.until(lambda: _is_done(fleet, 100))
        await fleet.until(lambda: _is_settled(fleet))
        assert not fleet.workers()
        history = await fleet.history()
        assert [one.news for one in history] == [
            ScalingNews.SCALE_UP,
            ScalingNews.SCALE_DOWN,
            ScalingNews.STOPPED,
            ScalingNews.STOPPED,
        ]
        assert [one.count for one in history] == [2, 2, 1, 1]
        jobs = await fleet.forge.jobs.page(queue="mail", limit=100)
        assert {(job.attempt_count, str(job.status)) for job in jobs.jobs} == {(1, "succeeded")}


@pytest.mark.parametrize("seconds", [6, pytest.param(30, marks=pytest.mark.long)])
async def test_a_job_that_runs_is_not_ended_by_scaling_in(
    tmp_path: Path, store: dict[str, str], seconds: float
) -> None:
    async with ScaledFleet(tmp_path, **store) as fleet:
        await fleet.scale(max_workers=2, target_queue_length=1)
        fleet.lead()
        await fleet.naps(2, seconds)
        await fleet.until(lambda: _runs(fleet, 2))
        await fleet.forge.scaling.edit("mail", max_workers=0)
        await fleet.until(lambda: _has(fleet, "scale_down 2"))
        await fleet.until(lambda: _is_done(fleet, 2))
        await fleet.until(lambda: not fleet.workers())
        jobs = await fleet.forge.jobs.page(queue="mail", limit=10)
        assert [(job.attempt_count, str(job.status)) for job in jobs.jobs] == [(1, "succeeded")] * 2


@pytest.mark.parametrize("moment", ["scale-up", "drain"])
async def test_a_leader_that_is_killed_leaves_no_orphan_and_the_next_one_goes_on(
    tmp_path: Path, store: dict[str, str], moment: str
) -> None:
    async with ScaledFleet(tmp_path, **store) as fleet:
        await fleet.scale(max_workers=2, target_queue_length=1)
        fleet.lead()
        fleet.lead()
        await fleet.naps(2, 3)
        leader = await fleet.leading()
        if moment == "scale-up":
            await fleet.until(lambda: _has(fleet, "scale_up 2"))
        else:
            await fleet.until(lambda: _runs(fleet, 2))
            await fleet.forge.scaling.edit("mail", max_workers=0)
            await fleet.until(lambda: _has(fleet, "scale_down 2"))
        fleet.kill(leader)
        most = 0

        async def is_over() -> bool:
            nonlocal most
            mine = [one for one in fleet.workers() if one.ppid() not in (1, leader.pid)]
            most = max(most, len(mine))
            return await _is_done(fleet, 2) and await _is_settled(fleet) and not fleet.workers()

        await fleet.until(is_over)
        news = await fleet.news()
        assert most <= 2, news  # of the next leader: none is started twice
        assert (await fleet.forge.scaling.get("mail")).state.draining == ()
        if moment == "drain":
            assert news.count("stopped 1") == 2


async def _is_done(fleet: ScaledFleet, count: int) -> bool:
    return (await fleet.stats()).succeeded == count


async def _runs(fleet: ScaledFleet, count: int) -> bool:
    return (await fleet.stats()).processing == count


async def _has(fleet: ScaledFleet, news: str) -> bool:
    return news in await fleet.news()


async def _is_settled(fleet: ScaledFleet) -> bool:
    """All that were drained have stopped, and nobody is on the way."""
    state = (await fleet.forge.scaling.get("mail")).state
    return state.action == "hold" and not state.draining and not state.workers
