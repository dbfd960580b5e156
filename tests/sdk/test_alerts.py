"""Alert rules from Python, on a store and through a server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskforge import TaskForge
from taskforge.domain.errors import Conflict, Invalid, NotFound


@pytest.fixture(params=["sqlite", "http"])
async def forge(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TaskForge]:
    where: dict[str, Any] = {"url": f"sqlite:///{tmp_path}/jobs.db"}
    if request.param == "http":
        where = request.getfixturevalue("served")
    app = TaskForge(**where)
    app.queue("default")
    async with app:
        yield app


async def test_a_rule_is_made_edited_silenced_and_deleted(forge: TaskForge) -> None:
    made = await forge.alerts.create("deep", "queue_size", threshold=5)
    assert (made.threshold, made.is_firing, made.queue) == (5.0, False, None)
    assert [one.name for one in await forge.alerts.all()] == ["deep"]
    edited = await forge.alerts.edit("deep", name="deeper", queue="default", repeat_seconds=0)
    assert (edited.name, edited.queue, edited.repeat_seconds) == ("deeper", "default", 0.0)
    assert (await forge.alerts.silence(made.id, 60)).silenced_until is not None
    assert (await forge.alerts.silence(made.id, 0)).silenced_until is None
    assert (await forge.alerts.pause("deeper")).is_paused
    assert not (await forge.alerts.resume("deeper")).is_paused
    assert await forge.alerts.history("deeper") == []
    with pytest.raises(Conflict, match="deeper"):
        await forge.alerts.create("deeper", "queue_size")
    with pytest.raises(Invalid, match="queue_sise"):
        await forge.alerts.create("other", "queue_sise")
    await forge.alerts.delete("deeper")
    with pytest.raises(NotFound, match="deeper"):
        await forge.alerts.get("deeper")
