"""Assignments from Python, on each kind of store and through a server."""

import pytest

from taskforge.domain.errors import Conflict, Invalid, NotFound
from taskforge.domain.name_pages import NamePage
from tests.support.crew import Crew


async def test_assignments_are_made_changed_and_removed(crew_on_each: Crew) -> None:
    forge = crew_on_each.forge
    forge.queue("mails")
    forge.queue("reports")
    one = await crew_on_each.start(name="one", slots=2)
    await crew_on_each.start(name="two", slots=4)
    assignments = forge.assignments
    assert [load.worker.name for load in await assignments.workers_by_load("mails")] == [
        "one",
        "two",
    ]
    made = await assignments.create("mails", "two", weight=5)
    assert (made.weight, made.is_active) == (5, True)
    assert [load.weight for load in await assignments.workers_by_load("mails")] == [5]
    assert "mails" not in {queue.name for queue in await assignments.queues_of("one")}
    with pytest.raises(Conflict):
        await assignments.create("mails", "two")
    with pytest.raises(Invalid, match="weight"):
        await assignments.edit("mails", "two", weight=101)
    assert not (await assignments.edit("mails", "two", is_active=False)).is_active
    assert len(await assignments.workers_by_load("mails")) == 2
    assert (await assignments.edit("mails", "two", weight=7)).weight == 7
    assert (await assignments.get("mails", "two")).weight == 7
    await assignments.create("reports", "one")
    assert len(await assignments.all()) == 2
    assert [each.worker for each in await assignments.all(queue="mails")] == [made.worker]
    assert len(await assignments.all(worker="one")) == 1
    matrix = await assignments.matrix()
    assert {queue.name for queue in matrix.queues} >= {"mails", "reports"}
    assert len(matrix.assignments) == len(matrix.workers) == 2
    part = await assignments.matrix_part(NamePage(name="mail*"), NamePage(limit=1))
    assert [queue.name for queue in part.queues] == ["mails"]
    assert [worker.name for worker in part.workers] == ["one"]
    assert part.assignments == []
    following = NamePage(limit=1, cursor=part.worker_cursor)
    part = await assignments.matrix_part(NamePage(name="mail*"), following)
    assert [(each.queue, each.worker) for each in part.assignments] == [(made.queue, made.worker)]
    await assignments.delete("mails", made.worker)
    with pytest.raises(NotFound):
        await assignments.get("mails", "two")
    with pytest.raises(NotFound, match="mails"):
        await assignments.create("mail", "two")
    assert one.name == "one"


async def test_queues_and_workers_are_listed_in_pages_and_by_part_of_their_name(
    crew_on_each: Crew,
) -> None:
    forge = crew_on_each.forge
    for name in ("mail", "mail-a*", "mail-b", "reports"):
        await forge.queues.create(name)
    for name in ("one", "two"):
        await crew_on_each.start(name=name)
    assert [queue.name for queue in await forge.queues.all("mail*")] == [
        "mail", "mail-a*", "mail-b",
    ]  # fmt: skip
    assert [queue.name for queue in await forge.queues.all("mail")] == ["mail"]
    assert (await forge.queues.get("mail-a*")).name == "mail-a*"
    first = await forge.queues.page(name="*-*", limit=1)
    assert [queue.name for queue in first.items] == ["mail-a*"]
    second = await forge.queues.page(name="*-*", limit=5, cursor=first.cursor)
    assert [queue.name for queue in second.items] == ["mail-b"]
    with pytest.raises(NotFound, match="mail-b"):
        await forge.queues.page(name="mail-bb")
    assert [worker.name for worker in await forge.workers.all(name="t*")] == ["two"]
    assert [worker.name for worker in (await forge.workers.page(limit=1)).items] == ["one"]
    with pytest.raises(NotFound, match="two"):
        await forge.workers.page(name="twoo")
    with pytest.raises(Invalid, match="limit"):
        await forge.queues.page(limit=1_001)
