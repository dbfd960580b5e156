"""The stream of events: in order, without gaps, one's own only, and over when the right to read it
is."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from taskforge import TaskForge
from taskforge.api.entry.caller import Caller
from taskforge.domain.claim import Claim
from taskforge.domain.event_flow import MOST_A_SECOND
from taskforge.domain.job import NewJob, new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.query import FIRST, Event
from taskforge.domain.queue import CreateQueue, UpdateQueue
from taskforge.domain.worker import NewWorker
from taskforge.operations import events as feed
from taskforge.operations.access.first_start import make_key
from tests.api.conftest import Api


class Told(msgspec.Struct, frozen=True):
    id: str
    topic: str
    data: dict[str, Any]


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.last = ""

    async def next(self, seconds: float = 10.0) -> Told:
        """The next event; comments are passed over, their ids kept as a browser would."""
        async with asyncio.timeout(seconds):
            fields: dict[str, str] = {}
            async for line in self._lines:
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                    continue
                self.last = fields.get("id", self.last)
                if "data" in fields:
                    return Told(fields["id"], fields["event"], json.loads(fields["data"]))
                fields = {}
        raise StopAsyncIteration

    async def ended(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                async for _ in self._lines:
                    pass
        except TimeoutError:
            return False
        except httpx.TransportError:
            return True
        return True


@asynccontextmanager
async def following(
    client: httpx.AsyncClient, last: str | None = None, **query: str | list[str]
) -> AsyncIterator[Stream]:
    headers = {} if last is None else {"last-event-id": last}
    async with client.stream("GET", "/api/v1/events", headers=headers, params=query) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response)


def job(queue: str = "mail") -> NewJob:
    return new_job(queue, "send")


async def test_what_happens_is_told_in_order(api: Api, root: httpx.AsyncClient) -> None:
    async with following(root) as stream:
        queue = (await root.post("/api/v1/queues", json={"name": "mail"})).json()["id"]
        made = (await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})).json()[
            "id"
        ]
        await root.post(f"/api/v1/jobs/{made}/cancel")
        await root.post(f"/api/v1/queues/{queue}/pause")
        worker = await api.engine.register(1, NewWorker(name="w", max_concurrent_jobs=5), 15.0)
        await root.post(f"/api/v1/workers/{worker.worker}/drain")
        told = []
        while not told or told[-1].topic != "worker.draining":
            told.append(await stream.next())
        await root.delete(f"/api/v1/queues/{queue}")
        while told[-1].topic != "queue.deleted":
            told.append(await stream.next())
    async with following(root, lastEventId=told[0].id) as stream:
        assert (await stream.next()).id == told[1].id
    topics = [one.topic for one in told]
    expected = [
        "queue.created",
        "job.cancelled",
        "queue.paused",
        "worker.draining",
        "queue.deleted",
    ]
    assert [one for one in topics if one in expected] == expected, topics
    cancelled = next(one for one in told if one.topic == "job.cancelled")
    assert (cancelled.data["jobs"], cancelled.data["queue"], cancelled.data["project"]) == (
        [made],
        "mail",
        "default",
    )
    assert next(one for one in told if one.topic == "worker.draining").data["worker"] == str(
        worker.worker
    )


async def finish_jobs(api: Api, jobs: int) -> None:
    """A worker that finishes jobs one by one, as fast as it can."""
    worker = await api.engine.register(1, NewWorker(name="w", max_concurrent_jobs=10), 60.0)
    done = 0
    while done < jobs:
        claimed = await api.engine.claim(Claim(worker.incarnation, 3))
        if claimed:
            await api.engine.finish([Finish(one.fence, ToSucceeded(None)) for one in claimed])
        done += len(claimed)
        await asyncio.sleep(0.002)


async def resumed(api: Api, root: httpx.AsyncClient, jobs: int) -> tuple[list[str], list[str], int]:
    """Follow while jobs are finished, and come back again and again: the jobs told of, the ids of
    events, how often it did."""
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    await api.engine.insert(1, [job() for _ in range(jobs)])
    told: list[str] = []
    ids: list[str] = []
    streams = 0
    async with following(root, topic="job.succeeded") as stream:
        working = asyncio.create_task(finish_jobs(api, jobs))
        first = await stream.next()
    ids.append(first.id)
    told += first.data["jobs"]
    while len(told) < jobs:
        streams += 1
        async with following(root, ids[-1], topic="job.succeeded") as stream:
            for _ in range(7):
                one = await stream.next()
                ids.append(one.id)
                told += one.data["jobs"]
                if len(told) >= jobs:
                    break
    await working
    return told, ids, streams


async def test_a_stream_that_broke_goes_on_without_a_gap(
    api: Api, root: httpx.AsyncClient, figure: Callable[[str], None]
) -> None:
    told, ids, streams = await resumed(api, root, 200)
    assert len(told) == len(set(told)) == 200
    assert len(ids) == len(set(ids))
    figure(
        f"events {type(api.engine).__name__}: n={len(told)} jobs told once each over "
        f"{streams + 1} broken streams"
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_stream_that_began_anew_would_have_gaps(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the place where it broke is not looked at."""
    follow = feed.Feed.follow
    monkeypatch.setattr(feed.Feed, "follow", lambda self, _: follow(self, None))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await resumed(api, root, 60)


async def test_a_reader_that_failed_begins_again(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, failed = api.engine.events, asyncio.Event()

    async def fault(*_: object) -> Any:
        monkeypatch.setattr(api.engine, "events", events)
        failed.set()
        raise RuntimeError("a fault of the store's")

    async with following(root) as stream:
        await root.post("/api/v1/queues", json={"name": "mail"})
        # from here on the reader for all of them is where the stream is
        assert (await stream.next()).data["queue"] == "mail"
        monkeypatch.setattr(api.engine, "events", fault)
        await failed.wait()
        await root.post("/api/v1/queues", json={"name": "post"})
        assert (await stream.next(5)).data["queue"] == "post"


async def test_everybody_hears_of_their_own_only(
    api: Api, root: httpx.AsyncClient, figure: Callable[[str], None]
) -> None:
    other = await api.tenant("Other")
    theirs = api.client(other.key)
    await root.post("/api/v1/projects", json={"name": "second"})
    bound = api.client(await api.key(1, ["job:*", "queue:*", "worker:*"], project="default"))
    blind = api.client(await api.key(1, ["job:read"]))
    clients = {"root": root, "theirs": theirs, "bound": bound, "blind": blind}
    heard: dict[str, list[str]] = {name: [] for name in clients}

    async def listen(name: str, client: httpx.AsyncClient, begun: asyncio.Event) -> None:
        async with following(client) as stream:
            begun.set()
            while True:
                one = await stream.next(60)
                heard[name].append(f"{one.data['project']}/{one.topic}/{one.data.get('queue')}")

    begun = {name: asyncio.Event() for name in clients}
    listening = [
        asyncio.create_task(listen(name, client, begun[name])) for name, client in clients.items()
    ]
    await asyncio.gather(*(one.wait() for one in begun.values()))
    for client, project in ((root, "default"), (root, "second"), (theirs, "default")):
        name = "theirs" if client is theirs else project
        assert (
            await client.post("/api/v1/queues", params={"project": project}, json={"name": name})
        ).status_code == 201
        made = await client.post(
            f"/api/v1/projects/{project}/jobs", json={"queue": name, "job_type": "x"}
        )
        await client.post(f"/api/v1/jobs/{made.json()['id']}/cancel")
    async with asyncio.timeout(10):
        while (
            not all(any("job.cancelled" in one for one in heard[name]) for name in clients)
            or len(heard["root"]) < 4
        ):
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.6)  # what is not theirs would have come by now
    for one in listening:
        one.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    assert {one.partition("/")[2] for one in heard["theirs"]} >= {
        "queue.created/theirs",
        "job.cancelled/theirs",
    }
    assert all(one.endswith("/theirs") for one in heard["theirs"])
    assert not any(
        one.endswith("/theirs") for name in ("root", "bound", "blind") for one in heard[name]
    )
    assert all(one.startswith("default/") for one in heard["bound"])
    assert all(one.split("/")[1].startswith("job.") for one in heard["blind"]), (
        "a key that may read jobs hears of jobs alone"
    )
    assert any(one.startswith("second/") for one in heard["root"])
    figure(
        f"events {type(api.engine).__name__}: n={sum(map(len, heard.values()))} events to 4 "
        f"listeners, 0 of others' projects"
    )


async def test_projects_made_while_a_stream_runs_are_told_of(
    serve: Callable[..., Awaitable[Api]], api: Api, root: httpx.AsyncClient, store_url: str
) -> None:
    """On another server too, which does not know of the project yet; never on a stream of one
    project."""
    second = await serve(store_url)
    there = second.client(root.headers["authorization"].removeprefix("Bearer "))
    async with (
        following(root) as here,
        following(there) as elsewhere,
        following(there, project="default") as bound,
    ):
        assert (await root.post("/api/v1/projects", json={"name": "later"})).status_code == 201
        # what it remembers may be of before
        assert (await there.get("/api/v1/projects")).status_code == 200
        for project, name in (("later", "inlater"), ("default", "after")):
            assert (
                await root.post("/api/v1/queues", params={"project": project}, json={"name": name})
            ).status_code == 201
        for stream in (here, elsewhere):
            told = [(await stream.next()).data for _ in range(2)]
            assert [(one["project"], one["queue"]) for one in told] == [
                ("later", "inlater"),
                ("default", "after"),
            ]
        assert (await bound.next()).data["queue"] == "after"


async def test_nobody_can_hold_all_streams(
    serve: Callable[..., Awaitable[Api]], tmp_path: Any
) -> None:
    api = await serve(f"sqlite:///{tmp_path / 'api.db'}", max_connections=80)
    keys = [api.client(await make_key(api.platform, f"k{number}")) for number in range(5)]
    root, other = keys[0], api.client((await api.tenant("Other")).key)
    async with AsyncExitStack() as streams:

        async def refused(client: httpx.AsyncClient, limit: int, whose: str) -> None:
            answer = await client.get("/api/v1/events")
            assert (answer.status_code, answer.headers["content-type"]) == (
                429,
                "application/problem+json",
            )
            assert (answer.json()["context"], answer.headers["retry-after"]) == (
                {"limit": limit},
                "5",
            )
            label = (await client.get("/api/v1/session")).json()["label"]
            assert answer.json()["detail"].startswith(
                f"{whose}{label} has {limit} streams of events open on this server"
            )

        for client in keys[1:]:
            for _ in range(2):
                await streams.enter_async_context(following(client))
            await refused(client, 2, "")
        await refused(root, 8, "the organization of ")
        async with following(other):
            assert (await root.get("/api/v1/queues")).status_code == 200
    async with asyncio.timeout(5):
        while api.platform.streams._held:
            await asyncio.sleep(0.01)
    async with following(root):
        pass


async def test_who_is_further_behind_than_what_is_kept_misses_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "KEPT", 20)
    queue = await api.engine.change_queue(1, CreateQueue(name="mail"))
    made = feed.Feed(api.engine, tuple)
    late = made.follow(None)
    await late.begin()
    start, reading = late.cursor, asyncio.create_task(made.run())
    with late:
        async with asyncio.timeout(10):
            while made._base is None:
                await asyncio.sleep(0.005)
            for number in range(25):
                await api.engine.change_queue(1, UpdateQueue(queue=queue.id, priority=number % 10))
            happened = (await api.engine.events(start, 100)).items
            while made._head != happened[-1].cursor:
                await asyncio.sleep(0.005)
            told: list[Event] = []
            while len(told) < 25 and (more := await late.next(1.0)):
                told += more
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert [event.cursor for event in told] == [event.cursor for event in happened]


async def test_a_place_that_is_no_longer_kept_is_gone(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskforge.domain.errors import EventsGone

    async def pruned(after: str | None, limit: int) -> Any:
        raise EventsGone(after or "")

    assert (
        await root.get("/api/v1/events", headers={"last-event-id": "no cursor"})
    ).status_code == 422
    monkeypatch.setattr(api.engine, "events", pruned)
    gone = await root.get("/api/v1/events", headers={"last-event-id": "0"})
    assert (gone.status_code, gone.headers["content-type"]) == (410, "application/problem+json")


@pytest.mark.parametrize("idle", [True, False])
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_stream_ends_with_its_key(
    api: Api, root: httpx.AsyncClient, figure: Callable[[str], None], idle: bool
) -> None:
    secret = await make_key(api.platform, "listener")
    await root.post("/api/v1/queues", json={"name": "mail"})
    keys = (await root.get("/api/v1/keys")).json()["items"]
    key = next(one["id"] for one in keys if secret.startswith(one["prefix"]))
    async with following(api.client(secret)) as stream:
        assert (await root.delete(f"/api/v1/keys/{key}")).status_code == 204
        begun = asyncio.get_running_loop().time()
        if not idle:
            made = await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})
            await root.post(f"/api/v1/jobs/{made.json()['id']}/cancel")
            with pytest.raises(StopAsyncIteration):
                await stream.next(5)
        assert await stream.ended(5)
        took = asyncio.get_running_loop().time() - begun
    figure(
        f"events {type(api.engine).__name__}: a stream ended {took:.1f} s after its key was "
        f"revoked (idle: {idle})"
    )


async def test_a_stream_that_never_asks_again_goes_on(
    serve: Callable[..., Awaitable[Api]], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    from taskforge.api.routes import events

    async def always(caller: Caller) -> Caller:
        return caller

    monkeypatch.setattr(events, "_still", always)
    api = await serve(f"sqlite:///{tmp_path / 'twin.db'}")
    secret = await make_key(api.platform, "listener")
    client = api.client(secret)
    async with following(client) as stream:
        key = (await client.get("/api/v1/keys")).json()["items"][0]["id"]
        assert (await client.delete(f"/api/v1/keys/{key}")).status_code == 204
        assert not await stream.ended(4)


async def test_a_stream_names_the_queues_it_wants(api: Api, root: httpx.AsyncClient) -> None:
    for name in ("mail", "other", "third"):
        await api.engine.change_queue(1, CreateQueue(name=name))
    mail = (await root.get("/api/v1/queues/mail")).json()["id"]
    async with following(root, queue=["other", mail], topic="job.") as stream:
        for name in ("third", "other", "mail"):
            await root.post("/api/v1/jobs", json={"queue": name, "job_type": "send"})
        told = [await stream.next(), await stream.next()]
    counts = {one.data["queue"]: one.data["details"] for one in told}
    one = {"count": 1, "types": {"send": 1}}
    assert counts == {"mail": one, "other": one}
    unknown = await root.get("/api/v1/events", params={"queue": "mial"})
    assert (unknown.status_code, "mail" in unknown.text) == (404, True)


async def test_above_fifty_events_a_second_sums_are_told(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And from Python, over the server and over the store itself."""
    await api.engine.change_queue(1, CreateQueue(name="mail"))
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.01)
    token = await make_key(api.platform, "reader")
    jobs = 3 * MOST_A_SECOND
    await api.engine.insert(1, [job() for _ in range(jobs)])
    worker = await api.engine.register(1, NewWorker(name="w", max_concurrent_jobs=jobs), 60.0)
    claimed = await api.engine.claim(Claim(worker.incarnation, jobs))
    async with TaskForge(api.address, token=token) as forge:
        heard = asyncio.create_task(_hear(forge, jobs))
        async with following(root, topic="job.succeeded") as stream:
            await asyncio.gather(
                *(api.engine.finish([Finish(one.fence, ToSucceeded(None))]) for one in claimed)
            )
            told, count = [], 0
            while count < jobs:
                told.append(await stream.next())
                details = told[-1].data.get("details") or {}
                count += len(told[-1].data.get("jobs", ())) or details["count"]
        assert count == jobs
        assert len(told) <= 2 * MOST_A_SECOND
        assert sum(one.data["details"]["events"] for one in told if "details" in one.data) > 0
        async with asyncio.timeout(20):
            assert await heard == jobs


async def _hear(forge: TaskForge, jobs: int) -> int:
    count = 0
    async for event in forge.events("job.succeeded", queues=["mail"], after=FIRST):
        count += event.count
        if count >= jobs:
            break
    return count
