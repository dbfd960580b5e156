"""Scaling policies from Python, on a store and through a server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskforge import TaskForge
from taskforge.domain.errors import Invalid, NotFound


@pytest.fixture(params=["sqlite", "http"])
async def forge(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TaskForge]:
    where: dict[str, Any] = {"url": f"sqlite:///{tmp_path}/jobs.db"}
    if request.param == "http":
        where = request.getfixturevalue("served")
    app = TaskForge(**where)
    app.queue("mail")
    async with app:
        yield app


async def test_a_policy_is_made_edited_paused_and_deleted(forge: TaskForge) -> None:
    made = await forge.scaling.put("mail", max_workers=4, drain_seconds=30)
    assert (made.policy.max_workers, made.policy.drain_seconds, made.provider) == (4, 30, "none")
    window = {"cron": "* 8-17 * * 1-5", "min_workers": 1}
    edited = await forge.scaling.edit("mail", windows=[window])
    assert [one.min_workers for one in edited.policy.windows] == [1]
    assert (await forge.scaling.pause("mail")).is_paused
    assert not (await forge.scaling.resume("mail")).is_paused
    assert [one.queue for one in await forge.scaling.all()] == ["mail"]
    advised = await forge.scaling.advise("mail")
    assert (advised.advice.count, advised.figures.length) in ((0, 0), (1, 0))
    assert await forge.scaling.history("mail") == await forge.scaling.history() == []
    assert await forge.scaling.series("mail") == []
    with pytest.raises(Invalid, match="max_workers"):
        await forge.scaling.edit("mail", min_workers=5)
    with pytest.raises(Invalid, match="target_queue_length"):
        await forge.scaling.edit("mail", target_queue_lenght=5)
    with pytest.raises(NotFound, match="mail"):
        await forge.scaling.put("mial", max_workers=1)
    await forge.scaling.delete("mail")
    with pytest.raises(NotFound, match="scaling policy"):
        await forge.scaling.get("mail")
