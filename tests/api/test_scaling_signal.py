"""What KEDA's metrics-api scaler reads of a queue."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from taskforge.domain.query import QueueStats
from taskforge.operations.scaling_signal import FRESH_SECONDS, ScalingSignals
from taskforge.storage.records.scaling import Look
from tests.api.conftest import Api

KEDA = Path(__file__).parents[2] / "docs/scaling/keda.yml"


async def test_the_length_of_a_queue_is_what_needs_workers(
    api: Api, root: httpx.AsyncClient
) -> None:
    for name in ("signalled", "other"):
        await root.post("/api/v1/queues", json={"name": name})
    path = "/api/v1/queues/signalled/scaling-signal"
    for delay in (0, 0, 3_600):
        job = {"queue": "signalled", "job_type": "send", "delay_seconds": delay}
        assert (await root.post("/api/v1/jobs", json=job)).status_code == 201
    assert (await root.get(path)).json() == {
        "queue": "signalled",
        "is_active": True,
        "pending": 2,
        "processing": 0,
        "length": 2,
        "desired_workers": None,
    }
    await root.post("/api/v1/queues/signalled/pause")
    api.platform.signals._looks.clear()  # else it may be a second old
    assert (await root.get(path)).json()["length"] == 0
    assert (await root.get("/api/v1/queues/none-such/scaling-signal")).status_code == 404


async def test_what_the_leader_wants_by_the_policy_is_told(
    api: Api, root: httpx.AsyncClient
) -> None:
    queue = await made(api, "wanted")
    path = "/api/v1/queues/wanted"
    await root.put(f"{path}/scaling", json={"max_workers": 3})
    records = api.platform.records.scaling
    policy = await records.find(queue.id)
    assert policy is not None
    assert (await root.get(f"{path}/scaling-signal")).json()["desired_workers"] is None
    now = await api.engine.now()
    state = msgspec.structs.replace(policy.state, desired=2, looked_at=now)
    await records.save(Look(scaling=policy, state=state, term=0))
    assert (await root.get(f"{path}/scaling-signal")).json()["desired_workers"] == 2


async def test_many_who_ask_look_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = api.platform.engine
    now, looks = 0.0, 0
    read = engine.stats

    async def stats(projects: Sequence[int], **named: Any) -> list[QueueStats]:
        nonlocal looks
        looks += 1
        return await read(projects, **named)

    monkeypatch.setattr(engine, "stats", stats)
    signals = ScalingSignals(engine, api.platform.records.scaling, lambda: now)
    queues = [await made(api, f"many-{number}") for number in range(20)]
    await asyncio.gather(*(signals.read(queue) for queue in queues * 10))
    assert looks == 1
    late = await made(api, "late")  # it was not there when they looked
    assert (await signals.read(late)).length == 0
    assert looks == 2
    now += 1.1 * FRESH_SECONDS
    await asyncio.gather(*(signals.read(queue) for queue in queues))
    assert looks == 3


async def made(api: Api, name: str) -> Any:
    from taskforge.domain.queue import CreateQueue

    return await api.platform.engine.change_queue(1, CreateQueue(name=name), note=None)


async def test_the_example_for_keda_reads_it(root: httpx.AsyncClient) -> None:
    """As KEDA does: the address and the place in the answer from the file."""
    by_kind = {one["kind"]: one for one in yaml.safe_load_all(KEDA.read_text(encoding="utf-8"))}
    scaled, authentication = by_kind["ScaledObject"], by_kind["TriggerAuthentication"]
    [trigger] = scaled["spec"]["triggers"]
    assert trigger["type"] == "metrics-api"
    metadata = trigger["metadata"]
    assert all(isinstance(value, str) for value in metadata.values())  # as its CRD wants them
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    assert scaled["metadata"]["namespace"] == authentication["metadata"]["namespace"]
    [secret] = authentication["spec"]["secretTargetRef"]
    assert (metadata["authMode"], secret["parameter"]) == ("bearer", "token")
    assert by_kind["Secret"]["metadata"]["name"] == secret["name"]
    assert secret["key"] in by_kind["Secret"]["stringData"]
    address = httpx.URL(metadata["url"])
    queue = address.path.split("/")[-2]
    await root.post("/api/v1/queues", json={"name": queue})
    await root.post("/api/v1/jobs", json={"queue": queue, "job_type": "send"})
    answer = await root.get(address.path)
    assert answer.json()[metadata["valueLocation"]] == 1
