"""The worker protocol as another language would speak it: plain requests, no code of ours on the
worker's side."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import Finish, Lost
from taskforge.domain.worker import NewWorker
from taskforge.operations.limits.connection_limits import Places
from taskforge.operations.upkeep import Upkeep
from taskforge.operations.work import claim_desk, worker_desk
from taskforge.operations.work.worker_desk import WorkerDesk
from tests.api.conftest import Api


def move_clock(monkeypatch: pytest.MonkeyPatch, desk: WorkerDesk, now: float) -> None:
    for part in (desk, desk._enrolled, desk._given):
        monkeypatch.setattr(part, "_monotonic", lambda: now)


@pytest.fixture
async def worker(api: Api, root: httpx.AsyncClient) -> httpx.AsyncClient:
    """A worker with a key of its own, and a queue with something to do."""
    await root.post("/api/v1/queues", json={"name": "mail", "settings": {"retry_delay_seconds": 0}})
    return api.client(await api.key(1, [], project="default", kind="worker"))


async def call(client: httpx.AsyncClient, verb: str, expected: int = 200, **body: Any) -> Any:
    answer = await client.post(f"/api/v1/worker/{verb}", json=body)
    assert answer.status_code == expected, answer.text
    return answer.json() if answer.content else None


async def enqueue(client: httpx.AsyncClient, **more: Any) -> str:
    answer = await client.post(
        "/api/v1/jobs", json={"queue": "mail", "job_type": "send", "payload": {"to": "a@b"}} | more
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def started(worker: httpx.AsyncClient, **more: Any) -> str:
    incarnation = (
        await call(worker, "register", 201, name=f"w{uuid4().hex[:6]}", types=["send"], **more)
    )["incarnation"]
    await call(worker, "heartbeat", incarnation=incarnation)
    return str(incarnation)


async def test_a_job_goes_through_a_worker(
    worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    job = await enqueue(root, tags=["x"])
    incarnation = await started(worker)
    (given,) = (await call(worker, "claim", incarnation=incarnation, limit=5))["jobs"]
    assert (given["job"], given["payload"], given["attempt"], given["tags"]) == (
        job,
        {"to": "a@b"},
        1,
        ["x"],
    )
    execution = given["execution"]
    for late, count in (("false", 1), ("true", 0)):  # it runs, and has not run too long
        running = await root.get("/api/v1/executions/active", params={"timed_out": late})
        assert [one["id"] for one in running.json()["items"]] == [execution] * count
    beat = {"execution": execution, "progress": 0.5, "message": "half"}
    assert await call(worker, "progress", incarnation=incarnation, beats=[beat]) == {"lost": []}
    line = {"execution": execution, "level": "warn", "message": "careful", "metadata": {"a": 1}}
    assert await call(worker, "logs", incarnation=incarnation, lines=[line]) == {"lost": []}
    assert (await root.get(f"/api/v1/jobs/{job}")).json()["progress"] == 0.5
    outcome = {
        "execution": execution,
        "outcome": {"kind": "success", "result": {"sent": True}},
        "ran_seconds": 0.1,
    }
    assert await call(worker, "complete", incarnation=incarnation, outcomes=[outcome]) == {
        "lost": []
    }
    done = (await root.get(f"/api/v1/jobs/{job}")).json()
    assert (done["status"], done["result"]) == ("succeeded", {"sent": True})
    lines = (await root.get(f"/api/v1/jobs/{job}/logs")).json()["items"]
    assert [(one["message"], one["ended"]) for one in lines] == [
        ("careful", None),
        ("attempt 1 succeeded in 100 ms", "succeeded"),
    ]
    assert await call(worker, "complete", incarnation=incarnation, outcomes=[outcome]) == {
        "lost": [execution]
    }
    await call(worker, "deregister", 204, incarnation=incarnation)


async def test_a_worker_hears_of_others_of_its_machine(worker: httpx.AsyncClient) -> None:
    first = await call(worker, "register", 201, name="a", pid=1, machine="m", pid_started="x")
    assert first["earlier"] == []
    second = await call(worker, "register", 201, name="b", pid=2, machine="m", pid_started="y")
    assert second["earlier"] == [
        {"incarnation": first["incarnation"], "pid": 1, "pid_started": "x"}
    ]
    await call(worker, "deregister", 204, incarnation=first["incarnation"], died=True)
    third = await call(worker, "register", 201, name="c", pid=3, machine="m", pid_started="z")
    assert [one["incarnation"] for one in third["earlier"]] == [second["incarnation"]]


async def test_logs_tell_every_end_of_a_job_or_of_one_execution(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    job = await enqueue(root, max_attempts=5)
    incarnation = await started(worker)
    failure = {"kind": "failure", "error": {"type": "ValueError", "message": "the secret"}}
    executions = []
    for outcome in (failure, {"kind": "timeout", "seconds": 1.0}, {"kind": "success"}):
        claimed: list[Any] = []
        while not claimed:  # a retry without delay has its jitter
            await api.engine.stage(10)
            claimed = (await call(worker, "claim", incarnation=incarnation, limit=1))["jobs"]
        [given] = claimed
        executions.append(given["execution"])
        line = {"execution": executions[-1], "level": "debug", "message": f"line {len(executions)}"}
        await call(worker, "logs", incarnation=incarnation, lines=[line])
        done = {"execution": executions[-1], "outcome": outcome, "ran_seconds": 2}
        assert await call(worker, "complete", incarnation=incarnation, outcomes=[done]) == {
            "lost": []
        }

    async def told(path: str, client: httpx.AsyncClient = root, **wanted: Any) -> Any:
        answer = await client.get(f"/api/v1/{path}/logs", params=wanted)
        assert answer.status_code == 200, answer.text
        return answer.json()

    everything = await told(f"jobs/{job}")
    assert [one["message"] for one in everything["items"]] == [
        "line 1",
        "attempt 1 failed after 2.0 s: ValueError: the secret; a retry is scheduled",
        "line 2",
        "attempt 2 timed out after 2.0 s; a retry is scheduled",
        "line 3",
        "attempt 3 succeeded in 2.0 s",
    ]
    assert everything["next_after"] is None
    page = await told(f"jobs/{job}", limit=2)
    assert page["items"] == everything["items"][:2]
    assert (await told(f"jobs/{job}", limit=10, after=page["next_after"]))["items"] == everything[
        "items"
    ][2:]
    assert (await told(f"jobs/{job}", limit=2, offset=3))["items"] == everything["items"][3:5]
    assert [one["ended"] for one in (await told(f"jobs/{job}", level="warn"))["items"]] == [
        "retry_scheduled"
    ] * 2
    for number, execution in enumerate(executions):
        own = await told(f"executions/{execution}")
        assert own["items"] == everything["items"][2 * number : 2 * number + 2]
        assert (await told(f"executions/{execution}", limit=1, offset=1))["items"] == own["items"][
            1:
        ]
    # What an error says is for those who may see payloads.
    viewer = api.client(await api.key(1, ["job:read"]))
    assert [
        one["message"] for one in (await told(f"executions/{executions[0]}", viewer))["items"]
    ] == [
        "line 1",
        "attempt 1 failed after 2.0 s; a retry is scheduled",
    ]
    nowhere = executions[0][:-6] + "000009"
    for path, status in ((f"executions/{nowhere}/logs", 404), (f"jobs/{job}/logs?after=x", 422)):
        assert (await root.get(f"/api/v1/{path}")).status_code == status
    # Figures are of the tries that succeeded.
    stats = (await root.get(f"/api/v1/jobs/{job}/executions/stats")).json()
    assert stats == {
        "count": 3,
        "succeeded": 1,
        "failed": 2,
        "avg_duration_ms": 2000.0,
        "min_duration_ms": 2000.0,
        "max_duration_ms": 2000.0,
    }


async def test_a_death_ends_the_lease_although_jobs_run(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    job = await enqueue(root)
    incarnation = await started(worker)
    assert len((await call(worker, "claim", incarnation=incarnation))["jobs"]) == 1
    await call(worker, "deregister", 409, incarnation=incarnation)
    for _ in range(2):
        await call(worker, "deregister", 204, incarnation=incarnation, died=True)
    await call(worker, "deregister", 204, incarnation=str(uuid4()), died=True)
    await call(worker, "heartbeat", 409, incarnation=incarnation)
    assert await Upkeep(api.engine).rescue() == 1
    found = (await root.get(f"/api/v1/jobs/{job}")).json()
    assert (found["status"], found["crash_count"]) == ("pending", 1)


async def test_of_another_tenants_worker_nobody_tells_a_death(
    api: Api, worker: httpx.AsyncClient
) -> None:
    """Nor of a life that is listed no more, because the worker has begun another: whoever tells of
    one need not be known."""
    neighbour = await api.tenant("Neighbour")
    [project] = [
        one
        for one in await api.platform.records.projects.all()
        if one.organization == neighbour.number
    ]
    theirs = NewWorker(name="theirs", machine="m", pid=1, pid_started="x")
    first = await api.engine.register(project.number, theirs, 0.0)
    second = await api.engine.register(project.number, theirs, 60)
    await call(worker, "deregister", 403, incarnation=str(second.incarnation), died=True)
    await call(worker, "deregister", 204, incarnation=str(first.incarnation), died=True)
    third = await api.engine.register(project.number, theirs, 60)
    assert [one.incarnation for one in third.earlier] == [first.incarnation, second.incarnation]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ({"kind": "failure", "error": {"type": "E", "message": "m"}}, "scheduled"),
        ({"kind": "timeout", "seconds": 3}, "scheduled"),
        ({"kind": "heartbeat_missed", "seconds": 3}, "scheduled"),
        ({"kind": "retry", "seconds": 60, "error": {"type": "E", "message": "m"}}, "scheduled"),
        ({"kind": "fail", "error": {"type": "E", "message": "m"}}, "failed"),
        ({"kind": "snooze", "seconds": 60}, "scheduled"),
        ({"kind": "cancel", "reason": "stop"}, "cancelled"),
        ({"kind": "skip"}, "pending"),
        ({"kind": "misfit", "error": {"type": "E", "message": "m"}}, "pending"),
        ({"kind": "hand_back"}, "pending"),
        ({"kind": "crashed", "worker": "child"}, "scheduled"),
        ({"kind": "deadline"}, "failed"),
    ],
)
async def test_every_outcome_is_decided_by_the_server(
    worker: httpx.AsyncClient, root: httpx.AsyncClient, outcome: dict[str, Any], status: str
) -> None:
    slow = {"name": "slow", "settings": {"retry_delay_seconds": 60}}
    assert (await root.post("/api/v1/queues", json=slow)).status_code == 201
    job = await enqueue(root, queue="slow")
    incarnation = await started(worker)
    (given,) = (await call(worker, "claim", incarnation=incarnation))["jobs"]
    report = {"execution": given["execution"], "outcome": outcome}
    assert await call(worker, "complete", incarnation=incarnation, outcomes=[report]) == {
        "lost": []
    }
    assert (await root.get(f"/api/v1/jobs/{job}")).json()["status"] == status


async def test_a_claim_waits_for_a_job_and_gets_it_soon(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    incarnation = await started(worker)
    waiting = asyncio.create_task(
        call(worker, "claim", incarnation=incarnation, limit=5, wait_seconds=20)
    )
    await until_waiting(api, 1)
    began = time.monotonic()
    job = await enqueue(root)
    answer = await waiting
    assert [one["job"] for one in answer["jobs"]] == [job]
    assert time.monotonic() - began < 1.0
    assert await call(worker, "claim", incarnation=incarnation, wait_seconds=0.2) == {"jobs": []}


async def test_a_newer_claim_ends_an_older_one(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    incarnation = await started(worker)
    older = asyncio.create_task(call(worker, "claim", incarnation=incarnation, wait_seconds=20))
    await until_waiting(api, 1)
    newer = asyncio.create_task(call(worker, "claim", incarnation=incarnation, wait_seconds=20))
    assert await older == {"jobs": []}
    job = await enqueue(root)
    assert [one["job"] for one in (await newer)["jobs"]] == [job]


async def test_a_worker_that_left_gets_no_job(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    gone, other = await started(worker), await started(worker)
    waiting = asyncio.create_task(call(worker, "claim", incarnation=gone, wait_seconds=20))
    await until_waiting(api, 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until_waiting(api, 0)
    job = await enqueue(root)
    (given,) = (await call(worker, "claim", incarnation=other, wait_seconds=5))["jobs"]
    assert (given["job"], given["attempt"]) == (job, 1)


async def until_waiting(api: Api, count: int) -> None:
    async with asyncio.timeout(5):
        while api.platform.desk.claims.waiting != count:
            await asyncio.sleep(0.005)


async def test_jobs_that_could_not_be_handed_back_at_once_go_back_later(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes away between a claim and the moment in which its worker turns out not to wait
    any more."""
    impatient, other = await started(worker), await started(worker)
    claimed, answered = asyncio.Event(), asyncio.Event()
    claim, finish, failures = (
        api.engine.claim,
        api.engine.finish,
        [StoreUnavailable("the store is away")],
    )

    async def slow_claim(asked: Claim) -> list[Claimed]:
        jobs = await claim(asked)
        if jobs:
            claimed.set()
            await answered.wait()
        return jobs

    async def away(finishes: Sequence[Finish], **more: Any) -> list[Lost]:
        if failures:
            raise failures.pop()
        return await finish(finishes, **more)

    monkeypatch.setattr(api.engine, "claim", slow_claim)
    monkeypatch.setattr(api.engine, "finish", away)
    waiting = asyncio.create_task(call(worker, "claim", incarnation=impatient, wait_seconds=0.5))
    await until_waiting(api, 1)
    job = await enqueue(root)
    await claimed.wait()
    assert await waiting == {"jobs": []}
    answered.set()
    (given,) = (await call(worker, "claim", incarnation=other, wait_seconds=10))["jobs"]
    assert (given["job"], given["attempt"], failures) == (job, 1, [])


async def test_a_claim_that_fails_is_told_to_its_worker_and_the_others_wait_on(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlucky, other = await started(worker), await started(worker)
    waiting = [
        asyncio.create_task(call(worker, "claim", 500, incarnation=unlucky, wait_seconds=20))
    ]
    await until_waiting(api, 1)
    waiting.append(asyncio.create_task(call(worker, "claim", incarnation=other, wait_seconds=20)))
    await until_waiting(api, 2)
    claim = api.engine.claim

    async def fault(asked: Claim) -> list[Claimed]:
        monkeypatch.setattr(api.engine, "claim", claim)
        raise RuntimeError("a fault of the store's")

    monkeypatch.setattr(api.engine, "claim", fault)
    job = await enqueue(root)
    told, given = await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert told["type"].endswith("fault")
    assert [one["job"] for one in given["jobs"]] == [job]


async def test_a_worker_without_a_free_slot_says_nothing_of_what_is_there_for_others(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots that it was started with, or that an operator wants it to have since: it hears of both
    with its heartbeat."""
    monkeypatch.setattr(claim_desk, "POLL_SECONDS", 60.0)
    full, free = (
        await started(worker, max_concurrent_jobs=2),
        await started(worker, max_concurrent_jobs=2),
    )
    [known] = [one for one in await api.engine.workers([1]) if str(one.incarnation) == full]
    await root.patch(f"/api/v1/workers/{known.id}", json={"max_concurrent_jobs": 1})
    await call(worker, "heartbeat", incarnation=full)
    for _ in range(2):
        await enqueue(root)
    assert len((await call(worker, "claim", incarnation=full, limit=1))["jobs"]) == 1
    waiting = asyncio.create_task(call(worker, "claim", incarnation=full, limit=1, wait_seconds=20))
    await until_waiting(api, 1)
    assert len((await call(worker, "claim", incarnation=free, limit=1))["jobs"]) == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_workers_whose_jobs_have_ended_wait_as_one(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    lives = [await started(worker, max_concurrent_jobs=1) for _ in range(2)]
    for incarnation in lives:
        await enqueue(root)
        [job] = (await call(worker, "claim", incarnation=incarnation, limit=1))["jobs"]
        outcome = {"execution": job["execution"], "outcome": {"kind": "success"}}
        assert await call(worker, "complete", incarnation=incarnation, outcomes=[outcome]) == {
            "lost": []
        }
    waiting = [
        asyncio.create_task(call(worker, "claim", incarnation=one, limit=1, wait_seconds=20))
        for one in lives
    ]
    await until_waiting(api, 2)
    assert [
        len(group.waiters) for group in api.platform.desk.claims._groups.values() if group.waiters
    ] == [2]
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_worker_whose_job_took_long_waits_as_one_with_others_too(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was forgotten of the job that it held does not take its slot for good."""
    lives = [await started(worker, max_concurrent_jobs=1, lease_seconds=600) for _ in range(2)]
    await enqueue(root)
    [job] = (await call(worker, "claim", incarnation=lives[0], limit=1))["jobs"]
    desk, later = api.platform.desk, time.monotonic() + 125
    move_clock(monkeypatch, desk, later)
    await call(worker, "heartbeat", incarnation=lives[0])
    await desk.forget_ended()
    outcome = {"execution": job["execution"], "outcome": {"kind": "success"}}
    assert await call(worker, "complete", incarnation=lives[0], outcomes=[outcome]) == {"lost": []}
    waiting = [
        asyncio.create_task(call(worker, "claim", incarnation=one, limit=1, wait_seconds=20))
        for one in lives
    ]
    await until_waiting(api, 2)
    assert [len(group.waiters) for group in desk.claims._groups.values() if group.waiters] == [2]
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_worker_whose_report_comes_while_it_waits_gets_the_next_job_with_it(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no slot when the job came; nothing but its report says that it has one now."""
    monkeypatch.setattr(claim_desk, "POLL_SECONDS", 60.0)
    monkeypatch.setattr(claim_desk, "REPORT_SECONDS", 60.0)
    life = await started(worker, max_concurrent_jobs=1)
    await enqueue(root)
    [job] = (await call(worker, "claim", incarnation=life, limit=1))["jobs"]
    waiting = asyncio.create_task(
        call(worker, "claim", incarnation=life, limit=1, wait_seconds=20, reporting=1)
    )
    await until_waiting(api, 1)
    groups, following = api.platform.desk.claims._groups, await enqueue(root)
    async with asyncio.timeout(10):
        while not any(
            one.passed_over for group in groups.values() for one in group.waiters.values()
        ):
            await asyncio.sleep(0.005)
        outcome = {"execution": job["execution"], "outcome": {"kind": "success"}}
        await call(worker, "complete", incarnation=life, outcomes=[outcome])
        assert [one["job"] for one in (await waiting)["jobs"]] == [following]


async def test_nobody_can_hold_all_connections_by_waiting(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has no place to wait is told so, and still gets jobs when there are some."""
    monkeypatch.setattr(api.platform.desk, "_waiting", Places("waiting claims", 1, 5))
    one, another = await started(worker), await started(worker)
    older = asyncio.create_task(call(worker, "claim", incarnation=one, wait_seconds=20))
    await until_waiting(api, 1)
    told = await call(worker, "claim", 429, incarnation=another, wait_seconds=20)
    assert "1 waiting claims" in told["detail"]
    assert (told["type"], told["context"], told["retry_after"]) == (
        "urn:taskforge:problem:crowded",
        {"limit": 1},
        5,
    )
    newer = asyncio.create_task(call(worker, "claim", incarnation=one, wait_seconds=20))
    assert await older == {"jobs": []}
    await until_waiting(api, 1)
    job = await enqueue(root)
    assert [given["job"] for given in (await newer)["jobs"]] == [job]
    waiting = asyncio.create_task(call(worker, "claim", incarnation=another, wait_seconds=20))
    await until_waiting(api, 1)
    assert await call(worker, "claim", incarnation=another, limit=0) == {"jobs": []}
    assert await waiting == {"jobs": []}
    job = await enqueue(root)
    assert [
        given["job"]
        for given in (await call(worker, "claim", incarnation=one, wait_seconds=20))["jobs"]
    ] == [job]
    assert not api.platform.desk._waiting._held


async def test_what_a_lost_answer_gave_out_goes_back(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: Any
) -> None:
    job = await enqueue(root)
    incarnation = await started(worker)
    # and let us say it never arrived
    (given,) = (await call(worker, "claim", incarnation=incarnation))["jobs"]
    # it may still be on its way
    assert await call(worker, "claim", incarnation=incarnation, held=[]) == {"jobs": []}
    monkeypatch.setattr(worker_desk, "ON_THE_WAY", timedelta(seconds=-1))
    assert await call(worker, "claim", incarnation=incarnation, held=[given["execution"]]) == {
        "jobs": []
    }
    (again,) = (await call(worker, "claim", incarnation=incarnation, held=[], wait_seconds=5))[
        "jobs"
    ]
    assert (again["job"], again["attempt"]) == (job, 1)
    assert again["execution"] != given["execution"]


async def test_of_a_lost_answer_no_other_worker_hears(
    worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker says that it holds is said of its own jobs."""
    monkeypatch.setattr(worker_desk, "ON_THE_WAY", timedelta(seconds=-1))
    jobs, lives = [await enqueue(root) for _ in range(2)], [await started(worker) for _ in range(2)]
    for job, life in zip(jobs, lives, strict=True):
        given = (await call(worker, "claim", incarnation=life, limit=1))["jobs"]
        assert [one["job"] for one in given] == [job]
    await call(worker, "claim", incarnation=lives[0], limit=0, held=[])
    found = [(await root.get(f"/api/v1/jobs/{job}")).json()["status"] for job in jobs]
    assert found == ["pending", "processing"]


async def test_what_a_lost_answer_gave_out_ends_when_it_was_cancelled_meanwhile(
    worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody runs it, so nobody else can end it."""
    monkeypatch.setattr(worker_desk, "ON_THE_WAY", timedelta(seconds=-1))
    cancelled, kept = await enqueue(root), await enqueue(root)
    incarnation = await started(worker)
    assert len((await call(worker, "claim", incarnation=incarnation, limit=2))["jobs"]) == 2
    asked = await root.post(f"/api/v1/jobs/{cancelled}/cancel", json={"reason": "ticket 17"})
    assert asked.status_code == 200, asked.text
    await call(worker, "claim", incarnation=incarnation, limit=0, held=[])
    found = [(await root.get(f"/api/v1/jobs/{job}")).json() for job in (cancelled, kept)]
    assert [(job["status"], job["attempt_count"]) for job in found] == [
        ("cancelled", 1),
        ("pending", 0),
    ]
    assert found[0]["reason"] == "ticket 17"


async def test_a_life_whose_lease_is_over_still_says_what_came_of_its_jobs(
    api: Api, serve: Any, store_url: str, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    """The server was away for longer than the lease: whoever lived on has begun anew, and tells
    what it reached before."""
    jobs = [await enqueue(root) for _ in range(3)]
    earlier = await started(worker)  # which had them before, and gave them back
    given = (await call(worker, "claim", incarnation=earlier, limit=3))["jobs"]
    back = [{"execution": one["execution"], "outcome": {"kind": "hand_back"}} for one in given]
    assert await call(worker, "complete", incarnation=earlier, outcomes=back) == {"lost": []}
    before = (await call(worker, "register", 201, name="w", types=["send"], lease_seconds=0.5))[
        "incarnation"
    ]
    first, second, third = (await call(worker, "claim", incarnation=before, limit=3))["jobs"]
    await asyncio.sleep(0.6)
    after = (await call(worker, "register", 201, name="w", types=["send"]))["incarnation"]
    restarted: Api = await serve(store_url)
    async with restarted.client(worker.headers["authorization"].removeprefix("Bearer ")) as again:
        outcomes = [
            {"execution": first["execution"], "outcome": {"kind": "success", "result": 1}},
            {
                "execution": second["execution"],
                "outcome": {"kind": "hand_back", "reason": "the store was away"},
            },
        ]
        # Not another life of it, though it is the same worker.
        assert (
            len((await call(again, "complete", incarnation=after, outcomes=outcomes))["lost"]) == 2
        )
        assert await call(again, "complete", incarnation=before, outcomes=outcomes) == {"lost": []}
        await call(again, "heartbeat", 409, incarnation=before)
        assert await Upkeep(api.engine).rescue() == 1
        late = [{"execution": third["execution"], "outcome": {"kind": "success"}}]
        await call(again, "complete", 409, incarnation=before, outcomes=late)
    found = [(await root.get(f"/api/v1/jobs/{job}")).json() for job in jobs]
    assert [one["status"] for one in found] == ["succeeded", "pending", "pending"]
    assert [one["attempt_count"] for one in found] == [1, 0, 0]


async def test_another_server_takes_the_reports_of_a_worker(
    api: Api, serve: Any, store_url: str, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    """A restart, or a load balancer: what one server handed out is reported to another."""
    job = await enqueue(root)
    incarnation = await started(worker)
    (given,) = (await call(worker, "claim", incarnation=incarnation))["jobs"]
    second: Api = await serve(store_url)
    there = second.client(worker.headers["authorization"].removeprefix("Bearer "))
    execution = given["execution"]
    assert await call(
        there,
        "progress",
        incarnation=incarnation,
        beats=[{"execution": execution, "progress": 0.1}],
    ) == {"lost": []}
    answer = await call(there, "heartbeat", incarnation=incarnation)
    assert (answer["drain"], answer["cancelled"]) == (False, [])
    outcome = {"execution": execution, "outcome": {"kind": "success"}}
    assert await call(there, "complete", incarnation=incarnation, outcomes=[outcome]) == {
        "lost": []
    }
    assert (await root.get(f"/api/v1/jobs/{job}")).json()["status"] == "succeeded"


async def test_no_payload_is_remembered_of_what_was_handed_out(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    await enqueue(root, payload="a-payload-to-be-found")
    assert len((await call(worker, "claim", incarnation=await started(worker)))["jobs"]) == 1
    assert len(api.platform.desk._given) == 1
    assert "a-payload-to-be-found" not in repr(api.platform.desk._given)


async def test_a_worker_that_is_silent_for_longer_than_its_lease_is_forgotten(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, later = api.platform.desk, time.monotonic() + 70
    dead, alive = await started(worker, lease_seconds=5), await started(worker, lease_seconds=60)
    for incarnation in (dead, alive):
        await enqueue(root)
        await call(worker, "claim", incarnation=incarnation)
    await desk.forget_ended()
    assert len(desk._given) == 2
    move_clock(monkeypatch, desk, later)
    await desk.forget_ended()
    assert [str(one) for one in desk._enrolled] == [alive]
    assert [str(one.incarnation) for one in desk._given.values()] == [alive]


async def test_what_was_handed_out_long_ago_is_looked_up(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have ended by another server. If it has not, its reports are taken as before."""
    await enqueue(root)
    incarnation = await started(worker, lease_seconds=600)
    (given,) = (await call(worker, "claim", incarnation=incarnation))["jobs"]
    desk, later = api.platform.desk, time.monotonic() + 125
    move_clock(monkeypatch, desk, later)
    await desk.forget_ended()
    assert desk._given == {}
    beat = {"execution": given["execution"], "progress": 0.5}
    assert await call(worker, "progress", incarnation=incarnation, beats=[beat]) == {"lost": []}
    assert len(desk._given) == 1, "the next report is taken without another look"
    outcome = {"execution": given["execution"], "outcome": {"kind": "success"}}
    assert await call(worker, "complete", incarnation=incarnation, outcomes=[outcome]) == {
        "lost": []
    }
    assert desk._given == {}


async def test_of_too_much_to_remember_the_oldest_goes(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskforge.operations.work import given_jobs

    monkeypatch.setattr(given_jobs, "REMEMBERED_AT_MOST", 10)
    await root.post("/api/v1/jobs/bulk", json=[{"queue": "mail", "job_type": "send"}] * 24)
    incarnation = await started(worker, max_concurrent_jobs=24)
    given = [
        job
        for _ in range(6)
        for job in (await call(worker, "claim", incarnation=incarnation, limit=4))["jobs"]
    ]
    assert len(given) == 24
    remembered = [str(fence) for fence in api.platform.desk._given]
    assert 8 < len(remembered) <= 10
    assert remembered == [one["execution"] for one in given][-len(remembered) :]
    outcomes = [{"execution": one["execution"], "outcome": {"kind": "success"}} for one in given]
    assert await call(worker, "complete", incarnation=incarnation, outcomes=outcomes) == {
        "lost": []
    }


async def test_cancel_and_drain_reach_a_worker_by_heartbeat(
    worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    job = await enqueue(root)
    registered = await call(worker, "register", 201, name="drained", types=["send"])
    incarnation = registered["incarnation"]
    await call(worker, "heartbeat", incarnation=incarnation)
    (given,) = (await call(worker, "claim", incarnation=incarnation))["jobs"]
    await root.post(f"/api/v1/jobs/{job}/cancel", json={"reason": "ticket 17"})
    await root.post(f"/api/v1/workers/{registered['worker']}/drain")
    answer = await call(worker, "heartbeat", incarnation=incarnation)
    assert (answer["drain"], answer["cancelled"]) == (True, [given["execution"]])
    assert answer["cancel_reasons"] == {given["execution"]: "ticket 17"}
    report = {
        "execution": given["execution"],
        "outcome": {"kind": "failure", "error": {"type": "E", "message": "m"}},
    }
    assert await call(worker, "complete", incarnation=incarnation, outcomes=[report]) == {
        "lost": []
    }
    found = (await root.get(f"/api/v1/jobs/{job}")).json()
    assert (found["status"], found["reason"]) == ("cancelled", "ticket 17")


async def test_a_payload_that_does_not_fit_goes_to_the_next_worker_and_waits_for_one(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    job = await enqueue(root)
    unfit = {
        "kind": "misfit",
        "error": {"type": "InvalidArguments", "message": "send(): no `subject`"},
    }
    for _ in range(2):
        incarnation = await started(worker)
        (given,) = (await call(worker, "claim", incarnation=incarnation))["jobs"]
        assert given["attempt"] == 1
        report = {"execution": given["execution"], "outcome": unfit}
        assert await call(worker, "complete", incarnation=incarnation, outcomes=[report]) == {
            "lost": []
        }
        assert (await call(worker, "claim", incarnation=incarnation))["jobs"] == []
    await api.engine.expire(10)
    why = (await root.get(f"/api/v1/jobs/{job}/explain")).json()
    assert (why["status"], [reason["code"] for reason in why["reasons"]]) == (
        "scheduled",
        ["misfit"],
    )
    assert "send(): no `subject`" in why["reasons"][0]["text"]
    await started(worker)
    await api.engine.stage(10)
    found = (await root.get(f"/api/v1/jobs/{job}")).json()
    assert (found["status"], found["attempt_count"]) == ("pending", 0)


async def test_a_worker_key_can_do_a_workers_work_and_nothing_else(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    assert (await worker.get("/api/v1/jobs")).status_code == 403
    assert (
        await worker.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})
    ).status_code == 403
    reader = api.client(await api.key(1, ["job:*", "queue:*"]))
    assert (await reader.post("/api/v1/worker/register", json={"name": "x"})).status_code == 403


async def test_nothing_of_another_tenant_can_be_touched(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    await enqueue(root)
    incarnation = await started(worker)
    (given,) = (await call(worker, "claim", incarnation=incarnation))["jobs"]
    other = await api.tenant("acme")
    thief = api.client(await api.key(other.number, [], project="default", kind="worker"))
    own = await started(thief)
    for verb, body in (
        ("heartbeat", {}),
        ("claim", {"limit": 1}),
        ("complete", {"outcomes": []}),
        ("progress", {"beats": []}),
        ("logs", {"lines": []}),
        ("deregister", {}),
    ):
        await call(thief, verb, 403, incarnation=incarnation, **body)
    execution = given["execution"]
    stolen = {"execution": execution, "outcome": {"kind": "success"}}
    assert await call(thief, "complete", incarnation=own, outcomes=[stolen]) == {
        "lost": [execution]
    }
    assert await call(thief, "progress", incarnation=own, beats=[{"execution": execution}]) == {
        "lost": [execution]
    }
    assert await call(
        thief, "logs", incarnation=own, lines=[{"execution": execution, "message": "x"}]
    ) == {"lost": [execution]}
    assert (await root.get(f"/api/v1/jobs/{given['job']}")).json()["status"] == "processing"


async def test_an_unknown_incarnation_must_register(worker: httpx.AsyncClient) -> None:
    await call(worker, "heartbeat", 409, incarnation=str(uuid4()))
    await call(worker, "claim", 409, incarnation=str(uuid4()))


async def test_a_heartbeat_renews_for_as_long_as_was_registered(
    api: Api, worker: httpx.AsyncClient
) -> None:
    incarnation = (await call(worker, "register", 201, name="patient", lease_seconds=600))[
        "incarnation"
    ]

    async def left() -> float:
        (found,) = [
            one for one in await api.engine.workers([1]) if str(one.incarnation) == incarnation
        ]
        return (found.lease_until - await api.engine.now()).total_seconds()

    await call(worker, "heartbeat", incarnation=incarnation)
    assert 500 < await left() <= 600
    await call(worker, "heartbeat", incarnation=incarnation, lease_seconds=60)
    await call(worker, "heartbeat", incarnation=incarnation)
    assert 30 < await left() <= 60


async def test_what_the_server_has_forgotten_is_still_one_workers_alone(
    api: Api, worker: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    job = await enqueue(root)
    holder, other = await started(worker), await started(worker)
    (given,) = (await call(worker, "claim", incarnation=holder))["jobs"]
    api.platform.desk._given.clear()  # as after a restart
    execution = given["execution"]
    outcome = {"execution": execution, "outcome": {"kind": "success", "result": 1}}
    beat, line = (
        {"execution": execution, "progress": 0.5},
        {"execution": execution, "level": "info", "message": "mine?"},
    )
    for verb, told in (
        ("complete", {"outcomes": [outcome]}),
        ("progress", {"beats": [beat]}),
        ("logs", {"lines": [line]}),
    ):
        assert await call(worker, verb, incarnation=other, **told) == {"lost": [execution]}
    found = (await root.get(f"/api/v1/jobs/{job}")).json()
    assert (found["status"], found["progress"]) == ("processing", None)
    assert await call(worker, "complete", incarnation=holder, outcomes=[outcome]) == {"lost": []}
