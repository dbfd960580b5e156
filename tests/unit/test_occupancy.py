"""The memory of lanes that hold jobs."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from taskforge.domain.queue import Queue, QueueSettings
from taskforge.storage.catalog import Card, Lane, Taker, spot_of
from taskforge.storage.circuits import NO_CIRCUITS
from taskforge.storage.lane_views import BEHIND_ALL, View
from taskforge.storage.occupancy import LANES_IN_ONE_SURVEY, Occupancy

THEN = datetime(2030, 1, 1, tzinfo=UTC)


def taker(worker: int = 1, **changes: object) -> Taker:
    given = {"queues": None, "types": None} | changes
    return Taker(UUID(int=worker), UUID(int=99), 1, "general", None, {}, accepts=True, **given)  # type: ignore[arg-type]


def card(
    number: int, *, priority: int = 0, servants: tuple[int, ...] = (), is_active: bool = True
) -> Card:
    queue = Queue(
        id=UUID(int=number),
        number=number,
        project=1,
        name=f"q{number}",
        description="",
        priority=priority,
        settings=QueueSettings(),
        is_active=is_active,
        version=1,
        created_at=THEN,
        updated_at=THEN,
    )
    return Card(queue, frozenset(UUID(int=worker) for worker in servants))


def judge(view: View, *cards: Card) -> None:
    """Each lane is of the queue of its number."""
    known = {one.queue.number: one for one in cards}
    lanes = {number: Lane(number, 1, number, "work", 0, "") for number in view.unjudged}
    for number in lanes:
        known.setdefault(number, card(number))
    view.judge(list(lanes), lanes, known, NO_CIRCUITS)


def numbers(view: View, most: int = 16, without: tuple[int, ...] = ()) -> list[int]:
    return [lane.number for lane in view.best(most, without)[0]]


@pytest.fixture
def occupancy() -> Occupancy:
    return Occupancy()


def test_the_best_lanes_come_by_tier_and_then_by_the_turn_of_their_first(
    occupancy: Occupancy,
) -> None:
    occupancy.survey([(1, 30), (2, 10), (3, 20), (4, 40)], 0, 0.0, 0.0)
    view = occupancy.view(taker())
    judge(view, card(4, priority=5))
    assert view.best(16) == (view.best(16)[0], None)
    assert numbers(view) == [4, 2, 3, 1]
    lanes, frontier = view.best(2)
    assert [lane.number for lane in lanes] == [4, 2]
    assert frontier == (99, 20)
    assert numbers(view, 2, without=(4,)) == [2, 3]
    assert numbers(view) == [4, 2, 3, 1]  # asking takes nothing out


def test_a_lane_that_a_claim_found_empty_is_forgotten_unless_a_job_came_meanwhile(
    occupancy: Occupancy,
) -> None:
    occupancy.tell(1, 10)
    occupancy.tell(2, 20)
    view = occupancy.view(taker())
    judge(view)
    moment = occupancy.moment
    occupancy.tell(2, 30)
    occupancy.leave(1, None, moment)
    occupancy.leave(2, None, moment)
    assert numbers(view) == [2]
    occupancy.leave(2, 30, occupancy.moment)
    assert view.best(16)[0][0].number == 2
    occupancy.leave(2, None, occupancy.moment)
    assert numbers(view) == []


def test_a_survey_corrects_what_was_remembered_but_not_what_was_told_since(
    occupancy: Occupancy,
) -> None:
    occupancy.tell(1, 10)
    occupancy.tell(2, 20)
    moment = occupancy.moment
    occupancy.tell(3, 30)
    occupancy.survey([(2, 25), (4, 40)], moment, 1.0, 0.001)
    assert occupancy.heads == {2: 25, 3: 30, 4: 40}


def test_a_survey_in_pieces_takes_away_only_what_it_walked_past(occupancy: Occupancy) -> None:
    last = 10 * LANES_IN_ONE_SURVEY
    occupancy.tell(5, 1)
    occupancy.tell(last, 1)
    piece = [(10 * number, 7) for number in range(1, LANES_IN_ONE_SURVEY + 1)]
    occupancy.survey(piece, occupancy.moment, 0.0, 0.0)
    assert 5 not in occupancy.heads
    assert occupancy.heads[last] == 7
    assert occupancy.walked == last
    occupancy.tell(last + 1, 1)
    occupancy.survey([(last + 2, 9)], occupancy.moment, 0.0, 0.0)
    assert occupancy.walked == 0
    assert last + 1 not in occupancy.heads
    assert len(occupancy.heads) == LANES_IN_ONE_SURVEY + 1


def test_a_queue_that_changed_is_judged_again_and_no_other(occupancy: Occupancy) -> None:
    occupancy.survey([(1, 10), (2, 20)], 0, 0.0, 0.0)
    view = occupancy.view(taker())
    judge(view)
    occupancy.judge_again([1])
    assert view.unjudged == {1}
    judge(view, card(1, is_active=False))
    assert numbers(view) == [2]
    occupancy.judge_again([1])
    judge(view)
    assert numbers(view) == [1, 2]


def test_workers_share_a_view_until_a_queue_names_its_workers(occupancy: Occupancy) -> None:
    assert occupancy.view(taker(1)) is occupancy.view(taker(2))
    assert occupancy.view(taker(1)) is not occupancy.view(taker(1, types=("mail",)))
    occupancy.survey([(1, 10), (2, 20)], 0, 0.0, 0.0)
    occupancy.serves_some()
    for worker, expected in ((1, [1, 2]), (2, [2])):
        view = occupancy.view(taker(worker))
        judge(view, card(1, servants=(1,)))
        assert numbers(view) == expected


def test_a_dear_survey_is_made_a_twentieth_of_the_time(occupancy: Occupancy) -> None:
    assert occupancy.is_due(0.0)
    occupancy.survey([], 0, 100.0, 0.001)
    assert not occupancy.is_due(100.9)
    assert occupancy.is_due(101.0)
    assert occupancy.may_survey(100.0)
    occupancy.survey([(number, 1) for number in range(1, 1_000)], 0, 100.0, 0.2)
    assert not occupancy.may_survey(103.9)
    assert occupancy.may_survey(104.0)
    assert not occupancy.is_due(103.9)
    occupancy.survey_soon()
    assert occupancy.is_due(100.0)


def test_heads_that_move_on_and_on_leave_no_heap_of_old_ones(occupancy: Occupancy) -> None:
    occupancy.tell(1, 0)
    view = occupancy.view(taker())
    judge(view)
    for turn in range(10_000):
        occupancy.leave(1, turn, occupancy.moment)
    assert len(view._heap) < 2_000
    assert numbers(view) == [1]


def test_a_key_that_was_empty_is_asked_again_though_its_job_comes_back_at_its_old_turn(
    occupancy: Occupancy,
) -> None:
    spot = spot_of(1, 77)
    view = occupancy.view(taker())
    for _ in range(3):
        occupancy.tell(spot, 10)
        if view.unjudged:
            judge(view)
        for _ in range(2):
            [lane] = view.best(16, limit=5)[0]
            assert (lane.number, lane.key, lane.most) == (1, 77, 5)
        view.charge([lane])
        view.settle([lane], {spot: 1})
        occupancy.leave(spot, None, occupancy.moment)
        assert view.best(16, limit=5) == ([], None)


def test_keys_of_one_queue_take_turns_and_leave_the_other_lanes_their_places(
    occupancy: Occupancy,
) -> None:
    occupancy.survey([(2, 15), (spot_of(1, 7), 10), (spot_of(1, 8), 20)], 0, 0.0, 0.0)
    view = occupancy.view(taker())
    judge(view)
    lanes, frontier = view.best(16, limit=4)
    asked = {lane.spot: lane.most for lane in lanes}
    assert asked == {2: None, spot_of(1, 7): 2, spot_of(1, 8): 2}
    # Of its tier all were asked that the limit allows, and those of others wait.
    assert frontier == (99, BEHIND_ALL)
