from uuid import uuid4

import pytest

from taskforge.domain.changes import Changed, EditJob
from taskforge.domain.errors import Conflict, Invalid, NotFound, Stale
from taskforge.domain.job import Inserted, JobStatus, Refused, new_job
from taskforge.domain.outcome import ToHandBack, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import CreateQueue, DeleteQueue, QueueSettings, UpdateQueue
from taskforge.ports.engine import Engine
from tests.support.stores import ALSO_WALLED
from tests.support.world import World, refusal

pytestmark = ALSO_WALLED


async def test_a_queue_comes_back_as_it_was_made(world: World) -> None:
    settings = QueueSettings.parse(
        {
            "max_retries": 4,
            "timeout_seconds": 12.5,
            "rate_limit": 90.5,
            "rate_limit_burst": 7,
            "accept_while_paused": True,
        }
    )
    made = await world.engine.change_queue(
        1,
        CreateQueue(
            name="mail", description="Post", priority=7, settings=settings, is_active=False
        ),
    )
    assert (made.name, made.description, made.priority, made.settings) == (
        "mail",
        "Post",
        7,
        settings,
    )
    assert (made.project, made.is_active, made.version, made.deleted_at) == (1, False, 1, None)
    assert made.created_at == made.updated_at == world.clock.now()
    assert made in await world.engine.queues([1])


async def test_names_are_taken_once_in_each_project(world: World, other: Engine) -> None:
    with pytest.raises(Conflict):
        await world.queue("default")
    with pytest.raises(Conflict):
        await other.change_queue(1, CreateQueue(name="default"))
    second = await world.probe.add_project("second")
    await world.queue("default", project=second)
    assert len(await world.engine.queues([1, second])) == 2
    mail = await world.queue("mail")
    with pytest.raises(Conflict):
        await world.update(mail, name="default")
    assert {queue.name for queue in await world.engine.queues([1])} == {"default", "mail"}


async def test_an_update_changes_what_it_names_and_counts_versions(world: World) -> None:
    made = await world.queue("mail", max_retries=4)
    world.clock.advance(5)
    changed = await world.update(made, priority=3)
    assert (changed.priority, changed.name, changed.settings) == (3, "mail", made.settings)
    assert (changed.version, changed.updated_at, changed.created_at) == (
        2,
        world.clock.now(),
        made.created_at,
    )
    changed = await world.update(
        made, name="post", description="new", settings=QueueSettings(max_retries=1), is_active=False
    )
    assert (changed.name, changed.description, changed.settings.max_retries, changed.is_active) == (
        "post",
        "new",
        1,
        False,
    )
    assert (changed.version, changed.priority, changed.id, changed.number) == (
        3,
        3,
        made.id,
        made.number,
    )
    assert changed in await world.engine.queues([1])


async def test_a_stale_update_is_refused(world: World) -> None:
    made = await world.queue("mail")
    await world.update(made, priority=3, expected_version=1)
    with pytest.raises(Stale):
        await world.update(made, priority=4, expected_version=1)
    with pytest.raises(Stale):
        await world.engine.change_queue(1, DeleteQueue(queue=made.id, expected_version=1))
    assert [queue.priority for queue in await world.engine.queues([1]) if queue.name == "mail"] == [
        3
    ]
    await world.update(made, priority=4, expected_version=2)
    await world.engine.change_queue(1, DeleteQueue(queue=made.id, expected_version=3))


async def test_a_renamed_queue_keeps_its_jobs(world: World, other: Engine) -> None:
    mail = await world.queue("mail")
    job = await world.enqueue("mail")
    await World(world.store, other, world.clock).update(mail, name="post")
    assert (await world.job(job)).queue == "post"
    refusal((await world.insert(new_job("mail", "work")))[0], NotFound)
    await world.enqueue("post")
    assert len(await world.claim(await world.worker(queues=("post",)))) == 2


@pytest.mark.parametrize(
    "change", [UpdateQueue(queue=uuid4(), priority=1), DeleteQueue(queue=uuid4())]
)
async def test_an_unknown_queue_is_not_found(
    world: World, change: UpdateQueue | DeleteQueue
) -> None:
    with pytest.raises(NotFound) as caught:
        await world.engine.change_queue(1, change)
    assert caught.value.kind == "queue"


async def test_another_projects_queue_is_unknown(world: World) -> None:
    second = await world.probe.add_project("second")
    theirs = await world.queue("theirs", project=second)
    for change in (UpdateQueue(queue=theirs.id, priority=1), DeleteQueue(queue=theirs.id)):
        with pytest.raises(NotFound):
            await world.engine.change_queue(1, change)
    assert await world.engine.queues([second]) == [theirs]
    assert await world.engine.queues([]) == []


# --- Dead letter queues ---


async def test_a_dead_letter_queue_is_another_living_queue_of_the_project(world: World) -> None:
    second = await world.probe.add_project("second")
    foreign = await world.queue("foreign", project=second)
    gone = await world.queue("gone")
    await world.engine.change_queue(1, DeleteQueue(queue=gone.id))
    mail = await world.queue("mail")
    for wrong in (foreign.id, gone.id, uuid4(), mail.id):
        with pytest.raises(Invalid) as caught:
            await world.update(mail, settings=QueueSettings(dead_letter_queue_id=wrong))
        assert caught.value.field == "settings.dead_letter_queue_id"
    with pytest.raises(Invalid):
        await world.queue("new", dead_letter_queue_id=str(uuid4()))
    assert {queue.name for queue in await world.engine.queues([1])} == {"default", "mail"}


async def test_dead_letters_never_go_in_a_circle(world: World) -> None:
    last = await world.queue("last")
    middle = await world.queue("middle", dead_letter_queue_id=str(last.id))
    first = await world.queue("first", dead_letter_queue_id=str(middle.id))
    for target in (first, middle):
        with pytest.raises(Invalid, match="cycle"):
            await world.update(last, settings=QueueSettings(dead_letter_queue_id=target.id))
    assert (await world.update(last, priority=1)).settings.dead_letter_queue_id is None


# --- Deleting ---


async def test_deleting_is_refused_while_jobs_run(world: World) -> None:
    mail = await world.queue("mail")
    job, fence = await world.running(queue="mail")
    with pytest.raises(Conflict):
        await world.engine.change_queue(1, DeleteQueue(queue=mail.id))
    await world.finish(fence, ToHandBack("stop"))
    await world.engine.change_queue(1, DeleteQueue(queue=mail.id))
    assert await world.status(job) is JobStatus.CANCELLED


async def test_deleting_is_refused_while_another_queue_sends_its_dead_letters_there(
    world: World,
) -> None:
    dead = await world.queue("dead")
    user = await world.queue("user", dead_letter_queue_id=str(dead.id))
    with pytest.raises(Conflict):
        await world.engine.change_queue(1, DeleteQueue(queue=dead.id))
    await world.engine.change_queue(1, DeleteQueue(queue=user.id))
    deleted = await world.engine.change_queue(1, DeleteQueue(queue=dead.id))
    assert deleted.deleted_at == world.clock.now()


async def test_a_deleted_queue_is_gone_and_its_jobs_are_cancelled(
    world: World, other: Engine
) -> None:
    mail = await world.queue("mail")
    pending, scheduled = (
        await world.enqueue("mail", unique_key="u"),
        await world.enqueue("mail", at=60),
    )
    done, fence = await world.running(queue="mail")
    await world.finish(fence, ToSucceeded(b"1"))
    await other.change_queue(1, DeleteQueue(queue=mail.id))
    assert [queue.name for queue in await world.engine.queues([1])] == ["default"]
    refusal((await world.insert(new_job("mail", "work")))[0], NotFound)
    for job in (pending, scheduled):
        found = await world.job(job)
        assert (found.status, found.reason, found.completed_at) == (
            JobStatus.CANCELLED,
            "queue deleted",
            world.clock.now(),
        )
    history = await world.job(done)
    assert (history.status, history.queue) == (JobStatus.SUCCEEDED, "mail")
    assert [one.queue for one in await world.engine.stats([1])] == ["default"]
    await world.enqueue(unique_key="u")
    with pytest.raises(NotFound):
        await world.engine.change_queue(1, DeleteQueue(queue=mail.id))


async def test_a_name_is_free_again_and_the_new_queue_is_another(world: World) -> None:
    old = await world.queue("mail")
    stranded = await world.enqueue("mail")
    await world.engine.change_queue(1, DeleteQueue(queue=old.id))
    new = await world.queue("mail")
    assert (new.id != old.id, new.number != old.number) == (True, True)
    job = await world.enqueue("mail")
    assert await world.claim_jobs(await world.worker()) == [job]
    assert await world.status(stranded) is JobStatus.CANCELLED
    assert (await world.stats("mail")).cancelled == 0


async def test_what_a_large_deleted_queue_still_holds_is_cancelled_by_expire(world: World) -> None:
    mail = await world.queue("mail")
    jobs = [
        *await world.enqueue_many(1_500, "mail"),
        *await world.enqueue_many(1_500, "mail", at=60),
    ]
    await world.engine.change_queue(1, DeleteQueue(queue=mail.id))
    worker = await world.worker()
    assert await world.claim(worker) == []
    places = list((await world.probe.places()).values())
    assert places.count("finished") >= 1_000
    while await world.engine.expire(500):
        pass
    found = await world.engine.get([1], jobs)
    assert {(job.status, job.reason) for job in found} == {(JobStatus.CANCELLED, "queue deleted")}
    assert len(found) == 3_000


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("name", CreateQueue(name="q" * 101)),
        ("name", CreateQueue(name="")),
        ("name", CreateQueue(name=" padded ")),
        ("priority", CreateQueue(name="q", priority=10)),
        ("description", CreateQueue(name="q", description="d" * 1_001)),
    ],
)
async def test_a_bad_queue_is_not_made(world: World, field: str, change: CreateQueue) -> None:
    with pytest.raises(Invalid) as caught:
        await world.engine.change_queue(1, change)
    assert caught.value.field == field
    assert await world.probe.count("queues") == 1


# --- By id ---


async def test_a_queue_is_meant_by_its_name_or_its_id(world: World) -> None:
    mail = await world.queue("mail")
    other = await world.queue("other")
    by_name, by_id = await world.enqueue("mail"), await world.enqueue(str(mail.id))
    loud = await world.enqueue(str(mail.id).upper(), at=1_000.0)
    answers = await world.insert(*(new_job(str(mail.id), "work", number) for number in range(3)))
    many = [answer.job for answer in answers if isinstance(answer, Inserted)]
    assert len(many) == 3
    for job in (by_name, by_id, loud, *many):
        found = await world.job(job)
        assert (found.queue, found.queue_id) == ("mail", mail.id)
    await world.enqueue("other")
    for text in ("mail", str(mail.id), str(mail.id).upper()):
        listed = await world.engine.list_jobs([1], JobFilter(queues=(text,)), Page())
        assert {one.id for one in listed.jobs} == {by_name, by_id, loud, *many}
        waiting = await world.engine.list_jobs(
            [1], JobFilter(queues=(text,), statuses=(JobStatus.SCHEDULED,)), Page()
        )
        assert [one.id for one in waiting.jobs] == [loud]
    assert isinstance(await world.change(by_id, EditJob(queue=str(other.id))), Changed)
    assert (await world.job(by_id)).queue == "other"
    await world.engine.change_queue(1, DeleteQueue(queue=other.id))
    [refused] = await world.insert(new_job(str(other.id), "work"))
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, NotFound)


async def test_no_queue_is_named_like_the_id_of_another(world: World) -> None:
    """Else whoever named one so would get what is sent to the other."""
    mail, other = await world.queue("mail"), await world.queue("other")
    for name in (str(mail.id), str(mail.id).upper()):
        with pytest.raises(Conflict, match="is the id of queue 'mail'"):
            await world.queue(name)
        with pytest.raises(Conflict, match="is the id of queue 'mail'"):
            await world.update(other, name=name)
    looks_like_one = str(uuid4())
    await world.queue(looks_like_one)
    assert (await world.job(await world.enqueue(looks_like_one))).queue == looks_like_one


async def test_another_projects_queue_is_not_meant_by_its_id(world: World) -> None:
    theirs = await world.probe.add_project("theirs")
    queue = await world.queue("mail", project=theirs)
    [refused] = await world.insert(new_job(str(queue.id), "work"))
    assert isinstance(refused, Refused)
    with pytest.raises(NotFound):
        await world.engine.list_jobs([1], JobFilter(queues=(str(queue.id),)), Page())
