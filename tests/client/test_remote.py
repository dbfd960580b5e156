"""The remote engine on a real server: what it gives and raises is what an engine here would."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from taskforge.client.queues import change_queue
from taskforge.client.remote import RemoteEngine
from taskforge.client.sync import SyncClient
from taskforge.domain.access import Throttled, Unauthenticated
from taskforge.domain.assignment import Assign, Reassign, Unassign
from taskforge.domain.changes import CancelJob, Changed, DeleteJob, EditJob, RetryJob
from taskforge.domain.errors import (
    Conflict,
    KeyTaken,
    LeaseLost,
    NotFound,
    QueuePaused,
    Stale,
    StoreUnavailable,
)
from taskforge.domain.ids import IdMint
from taskforge.domain.job import Inserted, JobStatus, NewJob, Refused, new_job
from taskforge.domain.job_parts import WHOLE
from taskforge.domain.log import Level
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import CreateQueue, DeleteQueue, QueueSettings, UpdateQueue
from taskforge.domain.worker import NewWorker, RegisterWorker, Sample, UpdateWorker
from taskforge.ports.engine import AnyEngine, is_store
from taskforge.ports.events import EventLog
from taskforge.ports.upkeep import Maintenance
from taskforge.ports.work import Work
from taskforge.settings import Settings
from taskforge.wiring import make_engine

ANY = [1]


@pytest.fixture
async def engine(served: dict[str, Any]) -> AsyncIterator[AnyEngine]:
    made = make_engine(Settings(**served))
    await made.open()
    await made.change_queue(1, CreateQueue(name="mail", settings=QueueSettings(max_retries=4)))
    yield made
    await made.close()


async def _insert(engine: AnyEngine, *jobs: NewJob) -> list[Any]:
    return [one.job if isinstance(one, Inserted) else one for one in await engine.insert(1, jobs)]


async def test_jobs_go_in_and_come_out_alike(engine: AnyEngine) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    wanted = new_job(
        "mail",
        "send",
        {"to": "a"},
        at=due,
        deadline=7_200,
        tags=["x"],
        requires={"gpu": True},
        unique_key="u",
    )
    [job] = await _insert(engine, wanted)
    [found] = await engine.get(ANY, [job])
    assert (found.queue, found.job_type, found.status, found.max_attempts) == (
        "mail",
        "send",
        "scheduled",
        5,
    )
    assert (found.tags, found.requires, found.unique_key) == (("x",), '{"gpu":true}', "u")
    assert found.payload is not None
    assert bytes(found.payload) == b'{"to":"a"}'
    assert found.scheduled_for is not None
    assert abs(found.scheduled_for - due) < timedelta(seconds=1)
    assert found.timeout_at is not None
    assert abs(found.timeout_at - datetime.now(UTC) - timedelta(hours=2)) < timedelta(seconds=60)
    assert await engine.get(ANY, [IdMint()()]) == []
    [again] = await engine.insert(1, [wanted])
    assert again == Inserted(job, existed=True)


async def test_a_job_that_waits_says_why(engine: AnyEngine) -> None:
    [job] = await _insert(engine, new_job("mail", "send", {"to": "a"}))
    found = await engine.explain(ANY, job)
    assert (found.job, found.status, found.ahead, [one.code for one in found.reasons]) == (
        job,
        "pending",
        0,
        ["no_worker"],
    )
    with pytest.raises(NotFound):
        await engine.explain(ANY, IdMint()())


async def test_many_jobs_are_read_in_a_few_requests(
    engine: AnyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await _insert(engine, *(new_job("mail", "send", {"n": number}) for number in range(250)))
    paths: list[str] = []
    transport: Any = getattr(engine, "transport")  # noqa: B009 - only an engine behind a server has one
    send = transport.send
    monkeypatch.setattr(
        transport, "send", lambda request: (paths.append(request.path), send(request))[1]
    )
    asked = [*reversed(jobs), IdMint()(), jobs[0]]
    assert [one.id for one in await engine.get(ANY, asked)] == jobs[::-1]
    assert paths == ["/jobs"] * 3
    assert await engine.get(ANY, []) == []


async def test_many_keep_their_order_and_their_refusals(engine: AnyEngine) -> None:
    keyed = new_job("mail", "send", {"n": 1}, idempotency_key="k")
    jobs = [
        new_job("mail", "send", {"n": 0}),
        keyed,
        new_job("nowhere", "send"),
        new_job("mail", "send", {"n": 3}),
    ]
    found = await engine.insert(1, jobs)
    assert [isinstance(one, Inserted) for one in found] == [True, True, False, True]
    assert isinstance(found[2], Refused)
    assert isinstance(found[2].error, NotFound)
    assert (found[2].error.kind, found[2].error.name) == ("queue", "nowhere")
    listed = await engine.list_jobs(
        ANY,
        JobFilter(queues=("mail",), statuses=(JobStatus.PENDING,)),
        Page(limit=10, include=WHOLE),
    )
    assert {bytes(one.payload or b"") for one in listed.jobs} == {
        b'{"n":0}',
        b'{"n":1}',
        b'{"n":3}',
    }
    other = new_job("mail", "send", {"n": 9}, idempotency_key="k")
    [taken], [also, _] = await engine.insert(1, [other]), await engine.insert(1, [other, jobs[0]])
    for one in (taken, also):
        assert isinstance(one, Refused)
        assert isinstance(one.error, KeyTaken)
        assert isinstance(found[1], Inserted)
        assert (one.error.key, one.error.job) == ("k", found[1].job)
    assert await engine.insert(1, []) == []


async def test_jobs_are_steered_and_refusals_are_the_engines(engine: AnyEngine) -> None:
    first, second = await _insert(engine, new_job("mail", "send"), new_job("mail", "send"))
    assert await engine.change(ANY, [first, second], EditJob(priority=7, at=3_600.0)) == [
        Changed(first, JobStatus.SCHEDULED),
        Changed(second, JobStatus.SCHEDULED),
    ]
    [changed] = await engine.change(ANY, [first], CancelJob("no more"))
    assert changed == Changed(first, JobStatus.CANCELLED)
    [refused, missing] = await engine.change(ANY, [first, IdMint()()], CancelJob())
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, Conflict)
    assert isinstance(missing, Refused)
    assert isinstance(missing.error, NotFound)
    [retried] = await engine.change(ANY, [first], RetryJob(2))
    assert isinstance(retried, Changed)
    assert retried.note is not None
    await engine.change(ANY, [first], CancelJob())
    assert await engine.change(ANY, [first], DeleteJob()) == [Changed(first, None)]
    assert await engine.get(ANY, [first]) == []


async def test_queues_are_changed_and_measured(engine: AnyEngine) -> None:
    [mail] = [one for one in await engine.queues(ANY) if one.name == "mail"]
    assert mail.settings == QueueSettings(max_retries=4)
    changed = await engine.change_queue(
        1, UpdateQueue(queue=mail.id, settings=QueueSettings(rate_limit=60.0), priority=3)
    )
    assert (changed.settings, changed.priority, changed.version) == (
        QueueSettings(rate_limit=60.0),
        3,
        mail.version + 1,
    )
    for stale in (UpdateQueue(queue=mail.id, priority=1), DeleteQueue(queue=mail.id)):
        with pytest.raises(Stale):
            await engine.change_queue(
                1, msgspec.structs.replace(stale, expected_version=mail.version)
            )
    with pytest.raises(Conflict):
        await engine.change_queue(1, CreateQueue(name="mail"))
    await _insert(engine, new_job("mail", "send"), new_job("mail", "send", at=60))
    [stats] = [one for one in await engine.stats(ANY) if one.queue == "mail"]
    assert (stats.pending, stats.scheduled, stats.total) == (1, 1, 2)
    await engine.change_queue(1, UpdateQueue(queue=mail.id, is_active=False))
    [refused] = await engine.insert(1, [new_job("mail", "send")])
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, QueuePaused)
    assert refused.error.queue == "mail"
    assert (await engine.change_queue(1, DeleteQueue(queue=mail.id))).deleted_at is not None
    assert "mail" not in [one.name for one in await engine.queues(ANY)]


async def test_a_worker_is_registered_ahead_of_its_process(engine: AnyEngine) -> None:
    ahead = await engine.change_worker(
        1, RegisterWorker(name="ahead", role="night", max_concurrent_jobs=4)
    )
    assert (ahead.name, ahead.status, ahead.role, ahead.max_concurrent_jobs) == (
        "ahead",
        "offline",
        "night",
        4,
    )
    assert (await engine.register(1, NewWorker(name="ahead"), 5)).worker == ahead.id
    with pytest.raises(Conflict, match="in use"):
        await engine.change_worker(1, RegisterWorker(name="ahead"))


async def test_workers_live_by_the_protocol(engine: AnyEngine) -> None:
    made = await engine.register(
        1, NewWorker(name="w1", queues=("mail",), capabilities={"gpu": True}, role="sender"), 5
    )
    renewed = await engine.renew(made.incarnation, 5, Sample(12.5, 1_000, True))
    assert (renewed.drain, renewed.cancelled) == (False, ())
    [worker] = await engine.workers(ANY)
    assert (worker.id, worker.incarnation, worker.name, worker.role) == (
        made.worker,
        made.incarnation,
        "w1",
        "sender",
    )
    assert (worker.queues, worker.capabilities, worker.cpu_percent, worker.status) == (
        ("mail",),
        {"gpu": True},
        12.5,
        "online",
    )
    changed = await engine.change_worker(
        1, UpdateWorker(worker=made.worker, max_concurrent_jobs=3, drain_mode=True)
    )
    assert (changed.max_concurrent_jobs, changed.drain_mode) == (3, True)
    for stale in (
        UpdateWorker(worker=made.worker, max_concurrent_jobs=4),
        UpdateWorker(worker=made.worker, drain_mode=False),
    ):
        with pytest.raises(Stale):
            await engine.change_worker(1, msgspec.structs.replace(stale, expected_mark=worker.mark))
    assert (
        await engine.change_worker(
            1, UpdateWorker(worker=made.worker, name="w1", expected_mark=changed.mark)
        )
    ).mark == changed.mark
    assert (await engine.renew(made.incarnation, 5, Sample())).drain
    [mail] = [one for one in await engine.queues(ANY) if one.name == "mail"]
    assigned = await engine.change_assignment(1, Assign(mail.id, made.worker, weight=5))
    assert assigned.weight == 5
    assert (
        await engine.change_assignment(1, Reassign(mail.id, made.worker, is_active=False))
    ).weight == 5
    assert [one.is_active for one in await engine.assignments(ANY)] == [False]
    for late in (Reassign(mail.id, made.worker, weight=6), Unassign(mail.id, made.worker)):
        with pytest.raises(Stale):
            await engine.change_assignment(
                1, msgspec.structs.replace(late, expected_mark=assigned.mark)
            )
    assert (await engine.change_assignment(1, Unassign(mail.id, made.worker))).worker == made.worker
    assert await engine.assignments(ANY) == []
    assert [(one.worker, one.completed) for one in await engine.worker_totals(ANY)] == [
        (made.worker, 0)
    ]
    await engine.deregister(made.incarnation)
    with pytest.raises(LeaseLost):
        await engine.renew(made.incarnation, 5, Sample())


async def test_what_a_server_does_itself_is_not_asked_of_it(engine: AnyEngine) -> None:
    """No method of the ports for work and upkeep stands there that only seems to do something."""
    assert not is_store(engine)
    for port in (Work, Maintenance, EventLog):
        assert [name for name in vars(port) if name[0] != "_" and hasattr(engine, name)] == []


async def test_the_executions_of_a_job_that_never_ran(engine: AnyEngine) -> None:
    [job] = await _insert(engine, new_job("mail", "send"))
    assert await engine.executions(ANY, job) == []
    assert await engine.logs(ANY, job, least=Level.TRACE, after=0, limit=10, offset=0) == []
    assert await engine.active_executions(ANY, timed_out=False, limit=10) == []
    assert abs(await engine.now() - datetime.now(UTC)) < timedelta(seconds=30)


async def test_a_wrong_token_and_an_absent_server_are_told_apart(served: dict[str, Any]) -> None:
    stranger = RemoteEngine(served["url"], "tfk_wrong")
    await stranger.open()
    with pytest.raises(Unauthenticated):
        await stranger.queues(ANY)
    await stranger.close()
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        await RemoteEngine("http://127.0.0.1:9", "").open()


def test_the_sync_client(served: dict[str, Any]) -> None:
    with SyncClient(served["url"], served["token"]) as client:
        assert client.queues() == []
        with pytest.raises(NotFound):
            client.enqueue(new_job("mail", "send"))
        assert client.list_jobs().jobs == []
        client.send(change_queue(CreateQueue(name="mail")))
        made = client.enqueue(new_job("mail", "send", {"to": ["a"]}, requires={"gpu": True}))
        found = client.get(made.job)
        assert (found.payload, found.result, found.requires) == ({"to": ["a"]}, None, {"gpu": True})
        [listed] = client.list_jobs(page=Page(include=WHOLE)).jobs
        assert listed == found


async def test_a_lease_keeper_hears_of_one_who_has_had_enough_that_it_is_to_come_back_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = RemoteEngine("https://jobs.example.com", "tfk_x")

    async def refuse(_: object) -> None:
        raise Throttled(7.0)

    monkeypatch.setattr(engine, "_send", refuse)
    for call in (
        engine.renew(IdMint()(), 15.0, Sample()),
        engine.deregister(IdMint()(), died=True),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            await call
        assert caught.value.retry_after == 7.0
