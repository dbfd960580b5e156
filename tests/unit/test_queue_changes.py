"""What a change makes of a queue, and what stands in its way."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.errors import Conflict, Invalid, Stale
from taskforge.domain.queue import CreateQueue, DeleteQueue, Queue, QueueSettings, UpdateQueue
from taskforge.domain.queue_changes import (
    changed_targets,
    check_runs_nothing,
    plan_queue_change,
    plan_queue_deletion,
)

THEN = datetime(2030, 1, 1, tzinfo=UTC)
MAIL, DEAD, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)


def queue(**changes: Any) -> Queue:
    values: dict[str, Any] = {
        "id": MAIL,
        "number": 1,
        "project": 1,
        "name": "mail",
        "description": "letters",
        "priority": 3,
        "settings": QueueSettings(max_retries=7),
        "is_active": True,
        "version": 4,
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Queue(**(values | changes))


def test_what_a_change_does_not_name_stays() -> None:
    values = plan_queue_change(UpdateQueue(queue=MAIL, priority=5), queue())
    assert (values.name, values.description, values.priority) == ("mail", "letters", 5)
    assert (values.settings.max_retries, values.is_active, values.is_renamed) == (7, True, False)


@pytest.mark.parametrize(("name", "is_renamed"), [("mail", False), ("post", True)])
def test_a_name_is_new_only_if_it_is_another(name: str, is_renamed: bool) -> None:
    values = plan_queue_change(UpdateQueue(queue=MAIL, name=name), queue())
    assert (values.name, values.is_renamed) == (name, is_renamed)
    assert plan_queue_change(CreateQueue(name=name), None).is_renamed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 101),
        ("name", " mail"),
        ("name", "mail "),
        ("description", "x" * 1_001),
        ("priority", -1),
        ("priority", 10),
    ],
)
def test_what_a_queue_cannot_be_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(Invalid) as refused:
        plan_queue_change(UpdateQueue(queue=MAIL, **{field: value}), queue())
    assert refused.value.field == field
    with pytest.raises(Invalid):
        plan_queue_change(CreateQueue(**{"name": "mail", field: value}), None)


def test_a_change_of_another_version_is_stale() -> None:
    with pytest.raises(Stale):
        plan_queue_change(UpdateQueue(queue=MAIL, expected_version=3), queue())
    with pytest.raises(Stale):
        plan_queue_deletion(DeleteQueue(queue=MAIL, expected_version=3), queue(), [])
    plan_queue_deletion(DeleteQueue(queue=MAIL, expected_version=4), queue(), [])


def test_a_queue_that_others_bury_in_stays_and_so_does_one_that_runs_jobs() -> None:
    delete = DeleteQueue(queue=MAIL)
    plan_queue_deletion(delete, queue(), [("a", None), ("b", OTHER)])
    with pytest.raises(Conflict, match="dead letter queue of 'b'"):
        plan_queue_deletion(delete, queue(), [("a", None), ("b", MAIL)])
    check_runs_nothing(queue(), 0)
    with pytest.raises(Conflict, match="1 jobs processing"):
        check_runs_nothing(queue(), 1)


def test_targets_change_with_where_dead_letters_go() -> None:
    to_dead, to_other = (
        queue(settings=QueueSettings(dead_letter_queue_id=target)) for target in (DEAD, OTHER)
    )
    assert changed_targets(None, to_dead) == {DEAD}
    assert changed_targets(to_dead, to_other) == {DEAD, OTHER}
    assert changed_targets(to_dead, to_dead) == changed_targets(queue(), queue()) == set()
    gone = queue(settings=to_dead.settings, deleted_at=THEN)
    assert changed_targets(to_dead, gone) == {DEAD}
