"""Every field of a job that users set, walked from each door to each reader, on both stores. What
was forgotten anywhere on the way is found here; the last test proves it by forgetting some."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest

from taskforge import Context, TaskForge
from taskforge.api.routes import jobs as job_routes
from taskforge.api.schema.views.jobs import JobView, job_view
from taskforge.cli import shapes
from taskforge.domain import job as fields
from taskforge.domain import job_request
from taskforge.domain.claim import Claim
from taskforge.domain.decoded import DecodedJob
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import (
    KEPT_AS_IS,
    Claimed,
    Extras,
    JobFacts,
    JobOptions,
    NewJob,
    NewJobOptions,
    StoredJob,
    new_job,
)
from taskforge.domain.job_request import NewJobBody
from taskforge.domain.queue import CreateQueue, QueueSettings
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker
from taskforge.domain.worker_protocol import claimed, wire_job
from taskforge.operations.access.first_start import make_key
from taskforge.sdk.options import EnqueueOptions, Options
from taskforge.storage.postgres import codec as postgres_codec
from taskforge.storage.sqlite import codec as sqlite_codec
from tests.support.serving import Api

NOON = datetime(2100, 1, 1, 12, tzinfo=UTC)
GPU = {"gpu": True}


class Example(msgspec.Struct, frozen=True):
    """A value that is not the default, and what the field is called at each door. None: it cannot
    be set there, or is not told there."""

    value: Any
    option: str | None
    body: str | None
    read: str | None
    claimed: str | None = None
    comes_back: Any = msgspec.UNSET  # where a reader gets another form of the value


EXAMPLES = {
    "priority": Example(7, "priority", "priority", "priority", "priority"),
    "max_attempts": Example(9, "max_attempts", "max_attempts", "max_attempts", "max_attempts"),
    "at": Example(NOON, "at", "scheduled_for", "scheduled_for"),
    "deadline": Example(NOON + timedelta(1), "deadline", "timeout_at", "timeout_at"),
    "expires": Example(NOON + timedelta(2), "expires", "expires_at", "expires_at"),
    "timeout_seconds": Example(
        12.5, "timeout", "timeout_seconds", "timeout_seconds", "timeout_seconds"
    ),
    "tags": Example(("a", "b"), "tags", "tags", "tags", "tags"),
    "requires": Example(GPU, "requires", "requires", "requires", None, '{"gpu":true}'),
    "unique_key": Example("u", "unique", "unique_key", "unique_key"),
    "idempotency_key": Example("i", "idempotency_key", "idempotency_key", "idempotency_key"),
    # how long the key stands for the job is told to the store alone
    "idempotency_seconds": Example(60.0, None, None, None),
    "fairness_key": Example("f", "fairness_key", "fairness_key", "fairness_key"),
    "trace": Example("00-abc", "trace", "trace", "trace", "trace"),
    "cost": Example(50, "cost", "cost", "cost", "cost"),
}
GIVEN_APART = {"queue", "job_type", "payload", "id", "note"}
SECONDS_FROM_NOW = {"delay_seconds", "deadline_seconds", "expires_seconds"}
NOT_HASHED = {"timeout_seconds", "idempotency_key", "idempotency_seconds", "fairness_key"}
NOT_HASHED |= {"trace", "cost"}


def test_every_field_of_a_new_job_has_an_example() -> None:
    assert set(EXAMPLES) == set(NewJob.__struct_fields__) - GIVEN_APART
    for name, example in EXAMPLES.items():
        assert example.value != fields.DEFAULTS[name]


def test_every_door_takes_every_field() -> None:
    assert set(NewJobOptions.__annotations__) == set(EXAMPLES)
    options = {one.option for one in EXAMPLES.values() if one.option is not None}
    assert set(EnqueueOptions.__annotations__) == options | {"queue", "delay"}
    assert set(JobOptions.__annotations__) <= options
    bodies = {one.body for one in EXAMPLES.values() if one.body is not None}
    body = set(NewJobBody.__struct_fields__)
    assert body == bodies | {"queue", "job_type", "payload"} | SECONDS_FROM_NOW


def test_every_reader_is_told_every_field() -> None:
    read = {one.read for one in EXAMPLES.values() if one.read is not None}
    assert read <= set(StoredJob.__struct_fields__)
    renamed = {"worker": "worker_incarnation"}
    shown = {renamed.get(name, name) for name in StoredJob.__struct_fields__} - {"epoch"}
    assert set(JobView.__struct_fields__) == shown | {"redacted"}


def test_what_the_store_only_keeps_is_null_unless_it_is_set() -> None:
    assert Extras.__struct_fields__
    assert all(field.default is None for field in msgspec.structs.fields(Extras))
    assert not set(Extras.__struct_fields__) & set(KEPT_AS_IS)
    assert set(Extras.__struct_fields__) <= set(Claimed.__struct_fields__)
    assert set(KEPT_AS_IS) <= set(JobFacts.__struct_fields__)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_field_is_checked_and_makes_a_job_that_is_not_plain_or_has_a_lane_of_its_own(
    name: str,
) -> None:
    plain = new_job("default", "work")
    options: Any = {name: EXAMPLES[name].value}
    job = new_job("default", "work", **options)
    in_lane = name in ("priority", "requires", "max_attempts")  # the shorter statements store those
    assert job.is_plain == (in_lane or name == "idempotency_seconds")
    assert (job.body_hash() == plain.body_hash()) == (name in NOT_HASHED)


def test_an_extra_reaches_a_worker_over_http() -> None:
    job = Claimed(
        fence_of(IdMint()(), 1), "q", "t", b"{}", 1, 3, 0, 0, 9.0, None, None, 0.0, QueueSettings()
    )
    extras = {name: EXAMPLES[name].value for name in Extras.__struct_fields__}
    over_http = claimed(wire_job(msgspec.structs.replace(job, **extras)))
    assert {name: getattr(over_http, name) for name in extras} == extras


# --- The walk ---


def _app(**place: Any) -> TaskForge:
    forge = TaskForge(**place)

    @forge.job(queue="walked")
    async def walk(ctx: Context) -> None: ...

    return forge


def _check_read(job: StoredJob | DecodedJob) -> None:
    """A store gives some fields back as it keeps them; applications get values."""
    for name, example in EXAMPLES.items():
        if example.read is not None:
            as_kept = isinstance(job, StoredJob) and example.comes_back is not msgspec.UNSET
            wanted = example.comes_back if as_kept else example.value
            assert getattr(job, example.read) == wanted, name


def _check_view(view: dict[str, Any]) -> None:
    for name, example in EXAMPLES.items():
        if example.read is not None:
            value = view[example.read]
            if isinstance(example.value, datetime):
                value = datetime.fromisoformat(value)
            elif isinstance(example.value, tuple):
                value = tuple(value)
            assert value == example.value, name


async def _enqueue_by_sdk(forge: TaskForge) -> UUID:
    options: Any = {one.option: one.value for one in EXAMPLES.values() if one.option is not None}
    handler = forge.registry.get("walk")
    assert handler is not None
    return (await forge.insert(Options(**options).build(handler, b"{}"))).job


async def _enqueue_by_rest(client: httpx.AsyncClient) -> UUID:
    body: dict[str, Any] = {"queue": "walked", "job_type": "walk"}
    body |= {one.body: one.value for one in EXAMPLES.values() if one.body is not None}
    answer = await client.post(
        "/api/v1/jobs",
        content=msgspec.json.encode(body),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["id"])


async def _read_everywhere(job: UUID, client: httpx.AsyncClient, *apps: TaskForge) -> None:
    for forge in apps:
        _check_read(await forge.get(job))
        engine = await forge.engine()
        [stored] = await engine.get([engine.home], [job])
        _check_read(stored)
        assert shapes.job(stored)["requires"] == GPU  # what the command line prints as JSON
    _check_view((await client.get(f"/api/v1/jobs/{job}")).json())
    await client.delete(f"/api/v1/jobs/{job}")


async def _walk(api: Api, client: httpx.AsyncClient, direct: TaskForge, remote: TaskForge) -> None:
    """From each door to each reader, the keys taken anew each time."""
    doors: list[Callable[[], Any]] = [
        lambda: _enqueue_by_sdk(direct),
        lambda: _enqueue_by_sdk(remote),
        lambda: _enqueue_by_rest(client),
    ]
    for number, door in enumerate(doors):
        for name in ("unique_key", "idempotency_key"):
            fresh = msgspec.structs.replace(EXAMPLES[name], value=f"{name}-{number}")
            EXAMPLES[name] = fresh
        await _read_everywhere(await door(), client, direct, remote)


@pytest.fixture
async def walk(api: Api, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("unique_key", "idempotency_key"):
        monkeypatch.setitem(EXAMPLES, name, EXAMPLES[name])  # puts it back
    token = await make_key(api.platform, "walker")
    client = api.client(token)
    made = await client.post("/api/v1/queues", json={"name": "walked"})
    assert made.status_code == 201, made.text
    direct, remote = _app(url=store_url), _app(url=api.address, token=token)
    try:
        yield lambda: _walk(api, client, direct, remote)
    finally:
        await asyncio.gather(direct.close(), remote.close())


async def test_every_field_goes_from_each_door_to_each_reader(walk: Any) -> None:
    await walk()


async def test_every_field_for_handlers_is_handed_out(api: Api) -> None:
    told = {name: one for name, one in EXAMPLES.items() if one.claimed is not None}
    options: Any = {name: one.value for name, one in told.items()}
    await api.engine.change_queue(FIRST_PROJECT, CreateQueue(name="told"))
    await api.engine.insert(FIRST_PROJECT, [new_job("told", "work", **options)])
    worker = await api.engine.register(FIRST_PROJECT, NewWorker(name="w"), 60.0)
    [job] = await api.engine.claim(Claim(worker.incarnation, 1))
    for name, one in told.items():
        assert one.claimed is not None
        assert getattr(job, one.claimed) == one.value, name
    assert set(Extras.__struct_fields__) <= set(told)


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(one for one in names if one != name)


def _without_trace(job: StoredJob, *arguments: Any, **options: Any) -> JobView:
    return job_view(msgspec.structs.replace(job, trace=None), *arguments, **options)


def _without_extras(_: Extras) -> dict[str, Any]:
    return {}


def _without_expiry(body: Any, instant: str, seconds: str) -> Any:
    return None if instant == "expires_at" else job_request_moment(body, instant, seconds)


job_request_moment = job_request.read_moment
FORGOTTEN: dict[str, list[tuple[Any, str, Any]]] = {
    "a store that does not read a column": [
        (codec, "KEPT_AS_IS", _without(KEPT_AS_IS, "fairness_key"))
        for codec in (sqlite_codec, postgres_codec)
    ],
    "a store that does not read the extras": [
        (codec, "extras_of", lambda _: {}) for codec in (sqlite_codec, postgres_codec)
    ],
    "a client and a server that do not say the extras": [
        (job_request, "extras_set", _without_extras)
    ],
    "a moment that is not said": [(job_request, "read_moment", _without_expiry)],
    "a view without a field": [(job_routes, "job_view", _without_trace)],
}


@pytest.mark.parametrize("place", FORGOTTEN)
async def test_a_field_that_is_forgotten_somewhere_is_found(
    walk: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where, name, twin in FORGOTTEN[place]:
        monkeypatch.setattr(where, name, twin)
    with pytest.raises(AssertionError):
        await walk()
