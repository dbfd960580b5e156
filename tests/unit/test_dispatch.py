"""On which worker each job is placed."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.balancer import LOAD_BALANCING, PULL
from taskforge.domain.dispatch import (
    LEAST_AT_ONCE,
    LEAST_DEPTH,
    MOST_CHOICES,
    MOST_DEPTH,
    MOST_PLACED,
    Backlog,
    Pace,
    Position,
    ServingWorker,
    UnplacedJob,
    key_of_worker,
    next_depth,
    place_jobs,
)
from taskforge.domain.fairness import FIRST_PLACED, key_of

POLICIES = [policy for policy in LOAD_BALANCING if policy != PULL]


def worker(number: int, **options: Any) -> ServingWorker:
    given = {"slots": 4, "running": 0, "placed": 0, **options}
    return ServingWorker(id=UUID(int=number), incarnation=UUID(int=1_000 + number), **given)


def backlog(policy: str, count: int, *workers: ServingWorker, **options: Any) -> Backlog:
    return Backlog(
        queue=1,
        project=1,
        name="spread",
        policy=policy,
        position=options.pop("position", Position()),
        jobs=options.pop(
            "jobs",
            tuple(
                UnplacedJob(UUID(int=10_000 + number), 1, number, stays_with=str(number))
                for number in range(count)
            ),
        ),
        workers=workers,
        takers={1: frozenset(one.id for one in workers)},
    )


def shares(made: Any) -> list[int]:
    counts = Counter(one.worker.int for one in made.placements)
    return [counts[number] for number in sorted(counts)]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_has_one_worker_or_none(policy: str) -> None:
    made = place_jobs(backlog(policy, 9, worker(1), worker(2), worker(3)))
    assert len({one.fence for one in made.placements}) == len(made.placements) == 9
    assert place_jobs(backlog(policy, 9)).placements == ()


@pytest.mark.parametrize("policy", ["round_robin", "weighted_round_robin"])
def test_a_rotation_waits_for_whoever_is_next_and_far_behind(policy: str) -> None:
    behind = worker(1, placed=MOST_PLACED + 4)
    made = place_jobs(backlog(policy, 9, behind, worker(2)))
    assert len(made.placements) <= 1
    assert all(one.worker == UUID(int=2) for one in made.placements)


def test_a_rotation_goes_on_where_it_was() -> None:
    workers = [worker(number) for number in (1, 2, 3)]
    first = place_jobs(backlog("round_robin", 2, *workers))
    second = place_jobs(backlog("round_robin", 1, *workers, position=first.position))
    assert [one.worker.int for one in (*first.placements, *second.placements)] == [1, 2, 3]


def test_keys_of_a_full_worker_wait_while_others_go_on() -> None:
    full, other = worker(1, placed=MOST_PLACED + 4), worker(2)
    made = place_jobs(backlog("sticky", 40, full, other))
    assert 0 < len(made.placements) < 40
    assert {one.worker for one in made.placements} == {other.id}


def test_load_counts_what_runs_and_what_is_placed() -> None:
    made = place_jobs(backlog("least_load", 4, worker(1, running=3, placed=1), worker(2)))
    assert [one.worker.int for one in made.placements] == [2, 2, 2, 2]
    others = place_jobs(backlog("least_load", 4, worker(1), worker(2)), already={UUID(int=1): 4})
    assert [one.worker.int for one in others.placements] == [2, 2, 2, 2]


def test_load_bounds_what_is_placed_ahead() -> None:
    assert len(place_jobs(backlog("least_load", 99, worker(1)), depth=2).placements) == 8
    assert len(place_jobs(backlog("least_load", 99, worker(1)), depth=4).placements) == 16


def test_adaptive_goes_where_jobs_are_done_soonest_and_succeed() -> None:
    paces = {UUID(int=1): Pace(1.0, 0.0), UUID(int=2): Pace(0.1, 0.0)}
    made = place_jobs(backlog("adaptive", 10, worker(1, slots=50), worker(2, slots=50)), paces)
    assert shares(made) in ([1, 9], [10])
    paces = {UUID(int=1): Pace(0.1, 0.9), UUID(int=2): Pace(0.1, 0.0)}
    made = place_jobs(backlog("adaptive", 10, worker(1, slots=50), worker(2, slots=50)), paces)
    assert Counter(one.worker.int for one in made.placements)[2] >= 8


def test_whoever_refused_a_job_does_not_get_it() -> None:
    by_worker = UnplacedJob(UUID(int=1), 1, 0, frozenset({UUID(int=1)}))
    by_life = UnplacedJob(UUID(int=2), 1, 1, frozenset({UUID(int=1_002)}))
    for policy in POLICIES:
        made = place_jobs(backlog(policy, 0, worker(1), worker(2), jobs=(by_worker, by_life)))
        assert [one.worker.int for one in made.placements] == [2, 1], policy


def test_many_workers_make_a_round_short() -> None:
    many = [worker(number) for number in range(1, 1_001)]
    made = place_jobs(backlog("round_robin", 1_000, *many))
    assert len(made.placements) == max(LEAST_AT_ONCE, MOST_CHOICES // 1_000)


def test_depth_grows_while_somebody_has_nothing_left_and_falls_back() -> None:
    dry = backlog("least_load", 99, worker(1, placed=0))
    assert next_depth(LEAST_DEPTH, dry, (), was_full=True) == 2 * LEAST_DEPTH
    assert next_depth(MOST_DEPTH, dry, (), was_full=True) == MOST_DEPTH
    assert next_depth(4, dry, (), was_full=False) == 4  # nothing was placed before
    full = backlog("least_load", 99, worker(1, placed=99))
    assert next_depth(8, full, (), was_full=True) == 7
    assert next_depth(LEAST_DEPTH, full, (), was_full=True) == LEAST_DEPTH
    empty = backlog("least_load", 0, worker(1))
    assert next_depth(8, empty, (), was_full=True) == LEAST_DEPTH


def test_keys_of_workers_and_of_fairness_never_meet() -> None:
    for number in range(100):
        assert FIRST_PLACED <= key_of_worker(UUID(int=number)) < 2**63
        assert 0 < key_of(str(number)) < FIRST_PLACED
