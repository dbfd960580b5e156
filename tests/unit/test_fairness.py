"""Whose turn it is among keys."""

import random
from collections import Counter

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.fairness import KEPT_TIMES, Fairness, KeyRounds, Share, key_of
from taskforge.domain.queue import QueueSettings


def rounds(*keys: int, weights: dict[int, float] | None = None) -> KeyRounds:
    made = KeyRounds(weights or {})
    for key in keys:
        made.join(key)
    return made


def take(turns: KeyRounds, jobs: int, most_keys: int = 1_000) -> Counter[int]:
    """As a claim does whose keys hold enough."""
    counts = turns.plan(jobs, most_keys, lambda _: True)
    for key, count in counts.items():
        turns.charge(key, count)
        turns.settle(key, count, count)
    return Counter(counts)


def test_keys_of_equal_weight_get_the_same() -> None:
    assert take(rounds(1, 2, 3), 9) == {1: 3, 2: 3, 3: 3}


def test_shares_follow_weights_whatever_the_size_of_claims() -> None:
    weights = {key: float(1 + key % 4) for key in range(30)}
    turns = rounds(*weights, weights=weights)
    taken: Counter[int] = Counter()
    draws = random.Random(7)
    while taken.total() < 10_000:
        taken += take(turns, draws.randint(1, 150), draws.choice((5, 40, 1_000)))
    whole = sum(weights.values())
    for key, weight in weights.items():
        assert taken[key] / taken.total() == pytest.approx(weight / whole, rel=0.02)


def test_a_key_that_comes_later_neither_waits_for_the_others_nor_catches_up() -> None:
    turns = rounds(1)
    take(turns, 1_000)
    turns.join(2)
    assert take(turns, 10)[2] == pytest.approx(5, abs=1)


def test_a_key_that_leaves_and_returns_keeps_what_it_has_had() -> None:
    turns = rounds(1, 2)
    turns.charge(1, 50)
    turns.leave(1)
    turns.join(1)
    assert take(turns, 50)[2] >= 49


def test_what_was_not_given_is_not_charged() -> None:
    turns = rounds(1, 2)
    turns.charge(1, 10)
    turns.settle(1, 10, 0)
    assert take(turns, 10) == {1: 5, 2: 5}


def test_keys_that_hold_nothing_any_more_are_left_out_and_those_passed_over_stay() -> None:
    turns = rounds(1, 2, 3)
    stands = {1: None, 2: False, 3: True}
    assert turns.plan(4, 10, lambda key: stands[key]) == {3: 4}
    assert len(turns) == 2
    assert take(turns, 4) == {2: 2, 3: 2}


def test_keys_that_are_gone_take_no_memory() -> None:
    turns = rounds(50_000)
    for key in range(1, 50_000):
        turns.join(key)
        take(turns, 2)
        turns.leave(key)
    assert len(turns._times) <= 3 * KEPT_TIMES
    assert len(turns._waiting) <= 3 * KEPT_TIMES


def test_processes_do_not_begin_with_the_same_key() -> None:
    first = {rounds(*range(1, 100)).first() for _ in range(20)}
    assert len(first) > 1


def test_a_key_is_a_number_that_both_stores_hold() -> None:
    # As the function `enqueue` of PostgreSQL makes it, too: tests/engine_postgres/test_enqueue.py
    assert 0 < key_of("acme") < 2**63
    assert all(0 < key_of(str(number)) < 2**63 for number in range(1_000))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("settings.fairness", True),
        ("settings.fairness", []),
        ("settings.fairness.weights", {"weights": 3}),
        ("settings.fairness.weights.a", {"weights": {"a": 0}}),
        ("settings.fairness.weights.a", {"weights": {"a": "much"}}),
        ("settings.fairness.weights", {"weights": {"": 1}}),
        ("settings.fairness.weights", {"weights": {str(key): 1 for key in range(1_001)}}),
    ],
)
def test_fairness_is_checked(field: str, value: object) -> None:
    with pytest.raises(Invalid) as caught:
        QueueSettings.parse({"fairness": value})
    assert caught.value.field == field


def test_an_unknown_part_of_fairness_names_the_nearest() -> None:
    with pytest.raises(Invalid, match="did you mean 'weights'"):
        QueueSettings.parse({"fairness": {"weight": {}}})


def test_a_share_is_a_weight_among_those_that_hold_jobs() -> None:
    fairness = Fairness(weights={"gold": 3})
    assert Share.among(fairness, key_of("gold"), [key_of("a"), key_of("b")]) == Share(3, 3.0, 5.0)
    assert Share.among(None, 0, []) == Share(1, 1.0, 1.0)
