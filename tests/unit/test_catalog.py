from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.assignment import Assignment
from taskforge.domain.errors import NotFound
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.storage.catalog import Catalog, Lane, Taker

THEN = datetime(2030, 1, 1, tzinfo=UTC)


def queue(number: int, name: str, **changes: Any) -> Queue:
    values: dict[str, Any] = {
        "id": UUID(int=number), "number": number, "project": 1, "name": name, "description": "", "priority": 0,
        "settings": QueueSettings(), "is_active": True, "version": 1, "created_at": THEN, "updated_at": THEN,
    }  # fmt: skip
    return Queue(**(values | changes))


def lane(number: int, queue: int, job_type: str = "work", priority: int = 0, requires: str = "") -> Lane:
    return Lane(number, 1, queue, job_type, priority, requires)


def taker(**changes: Any) -> Taker:
    values: dict[str, Any] = {
        "worker": UUID(int=1), "incarnation": UUID(int=2), "project": 1, "worker_type": "general", "role": None,
        "capabilities": {}, "queues": None, "types": None, "accepts": True,
    }  # fmt: skip
    return Taker(**(values | changes))


def taken(catalog: Catalog, who: Taker) -> list[int]:
    return [lane.number for lane in catalog.open_lanes(who)]


def test_lanes_come_by_queue_priority_then_job_priority() -> None:
    queues = [queue(1, "low"), queue(2, "high", priority=5)]
    catalog = Catalog(1, queues, [lane(1, 1, priority=9), lane(2, 2, priority=0), lane(3, 2, priority=3), lane(4, 1)])
    assert taken(catalog, taker()) == [3, 2, 1, 4]
    tiers = [opened.tier for opened in catalog.open_lanes(taker())]
    assert tiers == sorted(tiers)
    assert len(set(tiers)) == 4


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ({}, [1, 2, 3]),
        ({"queues": ("a",)}, [1, 2]),
        ({"queues": ("dead",)}, [5]),
        ({"queues": ()}, []),
        ({"types": ("mail",)}, [2]),
        ({"types": ()}, []),
        ({"capabilities": {"gpu": True}}, [1, 2, 3, 4]),
        ({"accepts": False}, []),
        ({"project": 2}, []),
        ({"worker_type": "specialized_io"}, [1, 2, 3, 6]),
        ({"role": "cleanup"}, [1, 2, 3, 7]),
        ({"capabilities": {"role": "cleanup", "worker_type": "specialized_io"}}, [1, 2, 3]),
        ({"queues": ("paused", "gone")}, []),
    ],
)
def test_a_worker_takes_what_it_subscribed_to_and_can_do(who: dict[str, Any], expected: list[int]) -> None:
    queues = [
        queue(1, "a", settings=QueueSettings(dead_letter_queue_id=UUID(int=3))),
        queue(2, "b"),
        queue(3, "dead"),
        queue(4, "paused", is_active=False),
        queue(5, "gone", deleted_at=THEN),
    ]
    lanes = [
        lane(1, 1), lane(2, 1, "mail"), lane(3, 2), lane(4, 2, requires='{"gpu":true}'), lane(5, 3),
        lane(6, 2, requires='{"worker_type":"specialized_io"}'), lane(7, 2, requires='{"role":"cleanup"}'),
        lane(8, 4), lane(9, 5),
    ]  # fmt: skip
    assert sorted(taken(Catalog(1, queues, lanes), taker(**who))) == expected


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ({}, [1, 3, 4]),
        ({"worker": UUID(int=9)}, [3]),
        ({"queues": ("b",)}, [3]),
        ({"queues": ("a", "b")}, [1, 3]),
        ({"worker": UUID(int=9), "queues": ("a", "dead")}, []),
    ],
)
def test_a_queue_with_active_assignments_is_served_by_those_workers_alone(who: dict[str, Any], expected: list[int]) -> None:
    queues = [
        queue(1, "a", settings=QueueSettings(dead_letter_queue_id=UUID(int=4))),
        queue(2, "other"),
        queue(3, "b"),
        queue(4, "dead"),
    ]
    assigned = [
        Assignment(
            queue=UUID(int=number), worker=UUID(int=worker), project=1, weight=1, is_active=active, created_at=THEN, updated_at=THEN
        )
        for number, worker, active in [(1, 1, True), (2, 7, True), (2, 1, False), (3, 7, False), (4, 1, True)]
    ]
    lanes = [lane(number, number) for number in range(1, 5)]
    assert sorted(taken(Catalog(1, queues, lanes, assigned), taker(**who))) == expected


def test_a_dead_letter_queue_whose_user_is_gone_is_an_ordinary_queue_again() -> None:
    queues = [
        queue(1, "a", settings=QueueSettings(dead_letter_queue_id=UUID(int=2)), deleted_at=THEN),
        queue(2, "was dead letters"),
    ]
    assert taken(Catalog(1, queues, [lane(1, 2)]), taker()) == [1]


def test_names_are_looked_up_in_their_project_among_the_living() -> None:
    catalog = Catalog(1, [queue(1, "mail"), queue(2, "mail", project=2), queue(3, "old", deleted_at=THEN)], [])
    assert catalog.queue_named(1, "mail").number == 1
    assert catalog.queue_named(2, "mail").number == 2
    with pytest.raises(NotFound, match="queue 'mial' does not exist; did you mean 'mail'"):
        catalog.queue_named(1, "mial")
    with pytest.raises(NotFound) as caught:
        catalog.queue_named(1, "old")
    assert caught.value.nearest is None
    with pytest.raises(NotFound):
        catalog.queue_with_id(1, UUID(int=2))
    with pytest.raises(NotFound):
        catalog.queue_with_id(1, UUID(int=3))
    assert catalog.queue_with_id(2, UUID(int=2)).name == "mail"


def test_lanes_are_found_by_what_they_intern() -> None:
    catalog = Catalog(1, [queue(1, "a")], [lane(7, 1, "mail", 3, '{"gpu":true}'), lane(8, 1)])
    assert catalog.lane((1, "mail", 3, '{"gpu":true}')) == 7
    assert catalog.lane((1, "mail", 3, "")) is None
    assert catalog.lanes_of([1]) == [7, 8]
    assert catalog.lanes_of([2]) == []


def test_dead_letter_targets_are_those_of_the_living_in_one_project() -> None:
    queues = [
        queue(1, "a", settings=QueueSettings(dead_letter_queue_id=UUID(int=2))),
        queue(2, "b"),
        queue(3, "c", project=2),
        queue(4, "d", deleted_at=THEN),
    ]
    assert Catalog(1, queues, []).dead_letter_targets_of(1) == {UUID(int=1): UUID(int=2), UUID(int=2): None}
