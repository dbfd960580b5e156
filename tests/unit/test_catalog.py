from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.errors import Conflict
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.queue_changes import check_queue_name
from taskforge.storage.catalog import (
    Card,
    Catalog,
    Lane,
    Remembered,
    Taker,
    may_take,
    tier_of,
)

THEN = datetime(2030, 1, 1, tzinfo=UTC)


def queue(number: int, name: str, **changes: Any) -> Queue:
    values: dict[str, Any] = {
        "id": UUID(int=number),
        "number": number,
        "project": 1,
        "name": name,
        "description": "",
        "priority": 0,
        "settings": QueueSettings(),
        "is_active": True,
        "version": 1,
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Queue(**(values | changes))


def lane(
    number: int, queue: int, job_type: str = "work", priority: int = 0, requires: str = ""
) -> Lane:
    return Lane(number, 1, queue, job_type, priority, requires)


def taker(**changes: Any) -> Taker:
    values: dict[str, Any] = {
        "worker": UUID(int=1),
        "incarnation": UUID(int=2),
        "project": 1,
        "worker_type": "general",
        "role": None,
        "capabilities": {},
        "queues": None,
        "types": None,
        "accepts": True,
    }
    return Taker(**(values | changes))


def cards_of(queues: list[Queue], servants: dict[int, set[int]] | None = None) -> dict[int, Card]:
    """As a store would read them."""
    graves = {queue.settings.dead_letter_queue_id for queue in queues if queue.deleted_at is None}
    return {
        queue.number: Card(
            queue,
            frozenset(UUID(int=worker) for worker in (servants or {}).get(queue.number, ())),
            queue.id in graves,
        )
        for queue in queues
    }


def taken(
    queues: list[Queue],
    lanes: list[Lane],
    who: Taker,
    servants: dict[int, set[int]] | None = None,
) -> list[int]:
    cards = cards_of(queues, servants)
    return [lane.number for lane in lanes if may_take(who, cards[lane.queue], lane)]


def test_lanes_come_by_queue_priority_then_job_priority() -> None:
    low, high = queue(1, "low"), queue(2, "high", priority=5)
    tiers = [
        tier_of(high, lane(3, 2, priority=3)),
        tier_of(high, lane(2, 2, priority=0)),
        tier_of(low, lane(1, 1, priority=9)),
        tier_of(low, lane(4, 1)),
    ]
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
        ({"project": 2}, []),
        ({"worker_type": "specialized_io"}, [1, 2, 3, 6]),
        ({"role": "cleanup"}, [1, 2, 3, 7]),
        ({"capabilities": {"role": "cleanup", "worker_type": "specialized_io"}}, [1, 2, 3]),
        ({"queues": ("paused", "gone")}, []),
    ],
)
def test_a_worker_takes_what_it_subscribed_to_and_can_do(
    who: dict[str, Any], expected: list[int]
) -> None:
    queues = [
        queue(1, "a", settings=QueueSettings(dead_letter_queue_id=UUID(int=3))),
        queue(2, "b"),
        queue(3, "dead"),
        queue(4, "paused", is_active=False),
        queue(5, "gone", deleted_at=THEN),
    ]
    lanes = [
        lane(1, 1),
        lane(2, 1, "mail"),
        lane(3, 2),
        lane(4, 2, requires='{"gpu":true}'),
        lane(5, 3),
        lane(6, 2, requires='{"worker_type":"specialized_io"}'),
        lane(7, 2, requires='{"role":"cleanup"}'),
        lane(8, 4),
        lane(9, 5),
    ]
    assert taken(queues, lanes, taker(**who)) == expected


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
def test_a_queue_with_active_assignments_is_served_by_those_workers_alone(
    who: dict[str, Any], expected: list[int]
) -> None:
    queues = [
        queue(1, "a", settings=QueueSettings(dead_letter_queue_id=UUID(int=4))),
        queue(2, "other"),
        queue(3, "b"),
        queue(4, "dead"),
    ]
    lanes = [lane(number, number) for number in range(1, 5)]
    assert taken(queues, lanes, taker(**who), {1: {1}, 2: {7}, 4: {1}}) == expected


def test_names_lead_to_the_living_and_ids_where_no_name_does() -> None:
    catalog = Catalog(1, 5)
    catalog.learn(cards_of([queue(1, "mail"), queue(3, "old", deleted_at=THEN)]).values())
    assert name_of(catalog, "mail") == "mail"
    assert name_of(catalog, str(UUID(int=1)).upper()) == "mail"
    assert name_of(catalog, "old") is None
    assert name_of(catalog, str(UUID(int=3))) is None
    assert name_of(catalog, "mial") is None


def name_of(catalog: Catalog, name: str) -> str | None:
    card = catalog.card_named(name)
    return None if card is None else card.queue.name


def test_a_change_brings_the_queues_that_were_met_to_the_version_and_forgets_workers() -> None:
    catalog = Catalog(1, 5)
    catalog.learn(cards_of([queue(1, "mail"), queue(2, "other")]).values())
    catalog.takers[UUID(int=2)] = taker()
    renamed, never_met = queue(1, "post"), queue(9, "new")
    assert catalog.change(6, cards_of([renamed, never_met]).values()) == [1, 9]
    assert (catalog.version, catalog.takers) == (6, {})
    assert name_of(catalog, "mail") is None
    assert name_of(catalog, "post") == "post"
    assert name_of(catalog, "other") == "other"
    assert catalog.card(9) is None


def test_two_queues_that_swap_their_names_are_not_confused() -> None:
    catalog = Catalog(1, 5)
    catalog.learn(cards_of([queue(1, "a"), queue(2, "b")]).values())
    catalog.change(7, cards_of([queue(1, "b"), queue(2, "a")]).values())
    for name, number in (("a", 2), ("b", 1)):
        card = catalog.card_named(name)
        assert card is None or card.queue.number == number


def test_what_was_not_asked_for_lately_is_forgotten_first() -> None:
    memory: Remembered[int, str] = Remembered(3)
    for number in range(3):
        memory.put(number, str(number))
    memory.put(3, "3")  # a new generation begins
    assert memory.get(1) == "1"  # and takes along what is asked for
    memory.put(4, "4")
    memory.put(5, "5")
    assert [memory.get(number) for number in range(6)] == [None, "1", None, "3", "4", "5"]
    assert len(memory) <= 6


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mail", "queue 'mail' already exists"),
        (str(UUID(int=1)), "is the id of queue 'mail'"),
    ],
)
def test_a_name_that_leads_to_another_queue_is_taken(name: str, message: str) -> None:
    with pytest.raises(Conflict, match=message):
        check_queue_name(name, queue(1, "mail"))
    check_queue_name(name, None)
