"""The audit log: one entry for each change that carries a note, and none for what did not
happen."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from taskforge.domain.assignment import Assign
from taskforge.domain.audit import AuditEntry, Note
from taskforge.domain.changes import CancelJob, DeleteJob, EditJob, RetryJob
from taskforge.domain.errors import Conflict, NotFound
from taskforge.domain.job import JobStatus, NewJob, new_job
from taskforge.domain.outcome import ToHandBack, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import CreateQueue, DeleteQueue, QueueSettings, UpdateQueue
from taskforge.domain.worker import UpdateWorker
from tests.support.world import World

NOTE = Note(
    actor="user:ada@example.com",
    action="queue.update",
    organization=1,
    origin="10.0.0.7",
    request="r-1",
)
BEGINNING, END = (-1, 0), (2**62, 2**62)  # of the order in which entries are sealed


def noted(action: str) -> Note:
    return Note(actor="key:tf_1", action=action)


def with_note(job: NewJob, note: Note) -> NewJob:
    return msgspec.structs.replace(job, note=note)


async def entries(world: World) -> list[AuditEntry]:
    reader: Any = world.engine
    found: list[AuditEntry] = await reader.look(
        AuditEntry, "sealed_audit_entries", *BEGINNING, 10_000, *END
    )
    return found


async def only(world: World) -> AuditEntry:
    [entry] = await entries(world)
    return entry


def said(entry: AuditEntry) -> tuple[str, str, Any, Any]:
    before, after = (
        None if raw is None else msgspec.json.decode(raw) for raw in (entry.before, entry.after)
    )
    return entry.action, entry.target, before, after


# --- Queues ---


async def test_an_entry_says_who_where_from_and_when(world: World) -> None:
    made = await world.engine.change_queue(1, CreateQueue(name="mail", priority=3), note=NOTE)
    entry = await only(world)
    assert (entry.at, entry.organization, entry.project) == (world.clock.now(), 1, 1)
    assert (entry.actor, entry.action) == ("user:ada@example.com", "queue.update")
    assert (entry.origin, entry.request) == ("10.0.0.7", "r-1")
    assert entry.target == f"queue mail ({made.id})"


async def test_a_queues_entry_holds_what_differs(world: World) -> None:
    made = await world.engine.change_queue(1, CreateQueue(name="mail"), note=noted("queue.create"))
    settings = QueueSettings(max_retries=7)
    await world.engine.change_queue(
        1, UpdateQueue(queue=made.id, priority=5, settings=settings), note=noted("queue.update")
    )
    await world.engine.change_queue(
        1, UpdateQueue(queue=made.id, is_active=False), note=noted("queue.pause")
    )
    await world.engine.change_queue(1, DeleteQueue(queue=made.id), note=noted("queue.delete"))
    created, updated, paused, deleted = map(said, await entries(world))
    target = f"queue mail ({made.id})"
    whole = {"name": "mail", "description": "", "priority": 0, "settings": {}, "is_active": True}
    assert created == ("queue.create", target, None, whole)
    assert updated == (
        "queue.update",
        target,
        {"priority": 0, "settings": {}},
        {"priority": 5, "settings": {"max_retries": 7}},
    )
    assert paused == ("queue.pause", target, {"is_active": True}, {"is_active": False})
    assert deleted == (
        "queue.delete",
        target,
        whole | {"priority": 5, "settings": {"max_retries": 7}, "is_active": False},
        None,
    )


async def test_what_was_refused_leaves_no_entry(world: World) -> None:
    [queue] = await world.engine.queues([1])
    with pytest.raises(Conflict):
        await world.engine.change_queue(1, CreateQueue(name="default"), note=NOTE)
    with pytest.raises(Conflict):
        await world.engine.change_queue(
            1, UpdateQueue(queue=queue.id, priority=1, expected_version=9), note=NOTE
        )
    with pytest.raises(NotFound):
        await world.engine.change_queue(1, DeleteQueue(queue=uuid4()), note=NOTE)
    with pytest.raises(NotFound):
        await world.engine.change_worker(
            1, UpdateWorker(worker=uuid4(), drain_mode=True), note=NOTE
        )
    running, _ = await world.running()
    await world.engine.change([1], [running, uuid4()], DeleteJob(), note=NOTE)
    await world.engine.change([], [running], CancelJob(), note=NOTE)
    await world.insert(with_note(new_job("no such queue", "work"), NOTE))
    assert await entries(world) == []


async def test_changes_without_a_note_leave_no_entry(world: World) -> None:
    queue = await world.queue("mail")
    await world.pause(queue)
    await world.change(await world.enqueue(), CancelJob())
    worker = await world.worker()
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=True))
    assert await entries(world) == []


# --- Jobs ---


async def test_one_changed_job_is_told_with_its_statuses(world: World) -> None:
    job = await world.bring(JobStatus.FAILED)
    await world.engine.change([1], [job], RetryJob(), note=noted("job.retry"))
    await world.engine.change([1], [job], EditJob(payload=b'"secret"'), note=noted("job.update"))
    await world.engine.change([1], [job], CancelJob(), note=noted("job.cancel"))
    await world.engine.change([1], [job], DeleteJob(), note=noted("job.delete"))
    retried, edited, cancelled, deleted = await entries(world)
    action, target, before, after = said(retried)
    assert (action, target, before) == ("job.retry", f"job {job}", {"status": "failed"})
    assert (after["status"], "granted" in after["note"] or "left" in after["note"]) == (
        "pending",
        True,
    )
    assert said(edited)[2:] == ({"status": "pending"}, {"status": "pending", "note": None})
    assert said(cancelled)[2:] == ({"status": "pending"}, {"status": "cancelled", "note": None})
    assert said(deleted)[2:] == ({"status": "cancelled"}, {"status": None, "note": None})
    assert {entry.project for entry in (retried, edited, cancelled, deleted)} == {1}
    assert "secret" not in str(await world.probe.rows("select before, after, target from audit"))


async def test_many_changed_jobs_are_one_entry(world: World) -> None:
    jobs = await world.enqueue_many(600)
    running, _ = await world.running()
    answers = await world.engine.change(
        [1], [*jobs, jobs[0], running, uuid4()], CancelJob(), note=noted("job.cancel")
    )
    assert len(answers) == 603
    entry = await only(world)
    assert said(entry) == (
        "job.cancel",
        "601 jobs",
        None,
        {"changed": 601, "first": [str(job) for job in jobs[:20]]},
    )


async def test_an_entry_tells_only_of_the_jobs_that_changed(world: World) -> None:
    done, waits = await world.bring(JobStatus.SUCCEEDED), await world.enqueue()
    await world.engine.change([1], [done, waits], CancelJob(), note=noted("job.cancel"))
    assert said(await only(world))[1] == f"job {waits}"


async def test_an_entry_on_jobs_of_several_projects_names_none(world: World) -> None:
    second = await world.probe.add_project("second")
    await world.queue("theirs", project=second)
    jobs = [await world.enqueue(), await world.enqueue("theirs", project=second)]
    await world.engine.change([1, second], jobs, CancelJob(), note=noted("job.cancel"))
    entry = await only(world)
    assert (entry.project, entry.target) == (None, "2 jobs")


# --- Workers ---


async def test_a_workers_entry_holds_what_differs(world: World) -> None:
    worker = await world.worker("w1", capabilities={"gpu": True})
    change = UpdateWorker(worker=worker.worker, max_concurrent_jobs=3, drain_mode=True, name="w2")
    await world.engine.change_worker(1, change, note=noted("worker.update"))
    entry = await only(world)
    assert entry.project == 1
    assert said(entry) == (
        "worker.update",
        f"worker w2 ({worker.worker})",
        {"name": "w1", "max_concurrent_jobs": 1_000, "drain_mode": False},
        {"name": "w2", "max_concurrent_jobs": 3, "drain_mode": True},
    )


async def test_a_worker_that_is_sent_away_is_told_of(world: World) -> None:
    await world.enqueue()
    worker = await world.worker("w1")
    claimed = await world.claim_one(worker)
    with pytest.raises(Conflict):
        await world.engine.deregister(worker.incarnation, note=NOTE)
    await world.engine.deregister(uuid4(), note=NOTE)
    assert await entries(world) == []
    await world.finish(claimed.fence, ToSucceeded())
    await world.engine.deregister(worker.incarnation, note=noted("worker.deregister"))
    entry = await only(world)
    assert (entry.at, entry.project) == (world.clock.now(), 1)
    assert said(entry) == ("worker.deregister", f"worker w1 ({worker.worker})", None, None)
    # Whoever sends away what has left already is told of too; a worker that leaves by itself is
    # not.
    await world.engine.deregister(worker.incarnation, note=noted("worker.deregister"))
    await world.engine.deregister((await world.worker("w2")).incarnation)
    assert [said(one)[1] for one in await entries(world)] == [entry.target, entry.target]


# --- Inserts ---


async def test_an_inserted_job_is_told_by_its_queue_and_type(world: World) -> None:
    [answer] = await world.insert(
        with_note(new_job("default", "mail", {"secret": 1}), noted("job.create"))
    )
    entry = await only(world)
    assert (entry.at, entry.project) == (world.clock.now(), 1)
    assert said(entry) == (
        "job.create",
        f"job {answer.job}",
        None,
        {"queue": "default", "job_type": "mail"},
    )  # type: ignore[union-attr]


@pytest.mark.parametrize("options", [{}, {"tags": ["t"], "at": 60.0}], ids=["plain", "rich"])
async def test_many_inserted_jobs_are_one_entry_for_each_note(
    world: World, options: dict[str, Any]
) -> None:
    one, two = noted("job.create"), noted("job.create")
    await world.insert(
        *(with_note(new_job("default", "work", number, **options), one) for number in range(12)),
        with_note(new_job("default", "lonely", **options), two),
        new_job("default", "work", **options),
        with_note(new_job("missing", "work", **options), one),
    )
    first, second = sorted(await entries(world), key=lambda entry: entry.target)
    assert said(first) == ("job.create", "12 jobs", None, {"jobs": 12})
    assert said(second)[3] == {"queue": "default", "job_type": "lonely"}
    assert await world.probe.count("jobs") == 14


async def test_a_job_that_existed_leaves_no_entry(world: World) -> None:
    await world.insert(
        new_job("default", "work", unique_key="k"), new_job("default", "work", idempotency_key="i")
    )
    note = noted("job.create")
    wanted = [
        new_job("default", "work", unique_key="k"),
        new_job("default", "work", idempotency_key="i"),
        new_job("default", "work", idempotency_key="i", priority=3),
    ]
    await world.insert(*(with_note(job, note) for job in wanted))
    assert await entries(world) == []
    await world.insert(
        *(with_note(job, note) for job in [*wanted, new_job("default", "work", unique_key="new")])
    )
    assert said(await only(world))[1].startswith("job ")


async def test_a_note_is_no_part_of_the_body(world: World) -> None:
    job = new_job("default", "work", idempotency_key="i")
    [one] = await world.insert(job)
    [two] = await world.insert(with_note(job, noted("job.create")))
    assert (one.job, two.existed) == (two.job, True)  # type: ignore[union-attr]


async def test_more_jobs_than_one_statement_takes_are_one_entry(world: World) -> None:
    note = noted("job.create")
    answers = await world.insert(*[with_note(new_job("default", "work"), note)] * 11_000)
    assert len({answer.job for answer in answers}) == 11_000  # type: ignore[union-attr]
    assert said(await only(world))[1] == "11000 jobs"
    assert len(await world.claim(await world.worker(), 10)) == 10


async def test_callers_that_share_a_statement_leave_their_own_entries(world: World) -> None:
    jobs = [
        with_note(new_job("default", "work", number), noted(f"job.create.{number}"))
        for number in range(20)
    ]
    await asyncio.gather(
        *(world.insert(job) for job in jobs),
        *(world.insert(new_job("default", "work")) for _ in range(20)),
    )
    found = await entries(world)
    assert sorted(entry.action for entry in found) == sorted(
        f"job.create.{number}" for number in range(20)
    )
    assert len({entry.target for entry in found}) == 20


async def test_a_handed_back_job_needs_no_note(world: World) -> None:
    _, fence = await world.running()
    await world.finish(fence, ToHandBack("stop"))
    assert await entries(world) == []


# --- One transaction ---


async def test_a_change_whose_entry_cannot_be_written_does_not_happen(world: World) -> None:
    [queue] = await world.engine.queues([1])
    worker = await world.worker()
    job = await world.enqueue()
    before = await state(world)
    bad = Note(actor=None, action="any")  # type: ignore[arg-type] # which no store takes
    engine = world.engine
    plain, rich = (
        with_note(new_job("default", "work"), bad),
        with_note(new_job("default", "work", at=60.0, unique_key="k"), bad),
    )
    attempts: list[Callable[[], Awaitable[Any]]] = [
        lambda: engine.change_queue(1, CreateQueue(name="mail"), note=bad),
        lambda: engine.change_queue(1, UpdateQueue(queue=queue.id, is_active=False), note=bad),
        lambda: engine.change_queue(1, DeleteQueue(queue=queue.id), note=bad),
        lambda: engine.change_worker(
            1, UpdateWorker(worker=worker.worker, drain_mode=True), note=bad
        ),
        lambda: engine.change_assignment(1, Assign(queue.id, worker.worker), note=bad),
        lambda: engine.change([1], [job], CancelJob(), note=bad),
        lambda: engine.change([1], [job], EditJob(priority=9), note=bad),
        lambda: engine.insert(1, [plain]),
        lambda: engine.insert(1, [rich]),
        lambda: engine.insert(1, [plain] * 6_000),
    ]
    for attempt in attempts:
        with pytest.raises(Exception, match=r"(?i)null"):
            await attempt()
        assert await state(world) == before
    assert await world.claim_jobs(worker) == [job]


async def state(world: World) -> list[Any]:
    events = await world.engine.events("0", 1_000)
    return [
        await world.engine.queues([1]),
        await world.engine.workers([1]),
        await world.engine.assignments([1]),
        (await world.engine.list_jobs([1], JobFilter(), Page())).jobs,
        await world.probe.counts(),
        len(events.items),
    ]
