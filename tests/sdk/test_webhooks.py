"""Webhooks from Python, on a store and through a server."""

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


async def test_a_webhook_is_made_edited_rotated_tried_and_deleted(forge: TaskForge) -> None:
    url = "https://hooks.example.com/x"
    made = await forge.webhooks.create("hook", url, ["job.*", "alert"], queues=["default"])
    assert made.secret.startswith("whsec_")
    assert made.webhook.kinds == {"job", "alert"}
    assert len(made.webhook.queues) == 1
    assert [one.name for one in await forge.webhooks.all()] == ["hook"]
    edited = await forge.webhooks.edit("hook", kinds=["report"], queues=[], report_seconds=10)
    assert (edited.kinds, edited.queues, edited.report_seconds) == ({"report"}, set(), 10.0)
    rotated = await forge.webhooks.rotate("hook", overlap_seconds=60)
    assert rotated.secret != made.secret
    assert rotated.webhook.old_secret_until is not None
    delivery = await forge.webhooks.ping(made.webhook.id)
    [found] = await forge.webhooks.deliveries("hook")
    assert (found.id, found.kind, found.attempts) == (delivery, "ping", 0)
    assert (await forge.webhooks.retry("hook", delivery)).id == delivery
    assert await forge.webhooks.deliveries("hook", status="delivered") == []
    assert not (await forge.webhooks.edit("hook", is_active=False)).is_active
    with pytest.raises(Conflict, match="is off"):
        await forge.webhooks.ping("hook")
    with pytest.raises(Conflict, match="hook"):
        await forge.webhooks.create("hook", url, ["job"])
    with pytest.raises(Invalid, match="did you mean 'job'"):
        await forge.webhooks.create("other", url, ["jobs"])
    for target in ("http://example.com/", "https://127.0.0.1/", "https://0x7f.1/"):
        with pytest.raises(Invalid, match="url"):
            await forge.webhooks.create("other", target, ["job"])
    await forge.webhooks.delete("hook")
    with pytest.raises(NotFound, match="hook"):
        await forge.webhooks.get("hook")
