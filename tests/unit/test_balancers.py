from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.balancer import (
    EXPLORE_EVERY,
    Contender,
    Credits,
    Experience,
    adaptive,
    least_load,
    observe,
    round_robin,
    sticky,
    weighted,
)

NAMES = st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=12, unique=True)
WEIGHTS = st.lists(st.integers(1, 20), min_size=1, max_size=12)
LOADED = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=1, max_size=12)
KEYS = [f"key {number}" for number in range(200)]


def names(count: int) -> list[str]:
    return [f"w{number:02}" for number in range(count)]


# --- Round robin ---


@given(NAMES, st.integers(1, 5))
def test_round_robin_gives_everyone_the_same(workers: list[str], rounds: int) -> None:
    candidates, last, chosen = [Contender(name) for name in workers], None, []
    for _ in range(len(workers) * rounds):
        last = round_robin(last, candidates)
        chosen.append(last)
    assert Counter(chosen) == dict.fromkeys(workers, rounds)
    assert all(
        len(set(chosen[start : start + len(workers)])) == len(workers)
        for start in range(len(workers) * (rounds - 1))
    )


def test_round_robin_goes_on_where_it_was_when_workers_come_and_go() -> None:
    def among(*workers: str) -> list[Contender]:
        return [Contender(name) for name in workers]

    assert round_robin("b", among("a", "c")) == "c"
    assert round_robin("b", among("a", "bb", "c")) == "bb"
    assert round_robin("z", among("b", "a")) == "a"
    assert round_robin("a", [Contender("a"), Contender("b", 1, 1)]) == "a"
    assert round_robin("a", [Contender("b", 1, 1)]) is None


# --- Weighted ---


@given(WEIGHTS)
def test_weights_are_shares_and_nobody_is_ever_a_whole_job_ahead_or_behind(
    weights: list[int],
) -> None:
    candidates = [
        Contender(name, weight=weight)
        for name, weight in zip(names(len(weights)), weights, strict=True)
    ]
    total, credit, counts = sum(weights), {}, Counter[str]()
    for turn in range(1, 2 * total + 1):
        remembered: Credits
        remembered, chosen = weighted(credit, candidates)
        credit = remembered
        assert chosen is not None
        counts[chosen] += 1
        # |given - share| < 1, in whole numbers
        assert all(
            abs(counts[each.name] * total - turn * each.weight) < total for each in candidates
        )
        if turn % total == 0:
            assert counts == {each.name: each.weight * (turn // total) for each in candidates}
            assert set(credit.values()) == {0}


def test_a_heavy_worker_alternates_with_the_others() -> None:
    candidates, credit, chosen = [Contender("a", weight=2), Contender("b"), Contender("c")], {}, ""
    for _ in range(8):
        credit, name = weighted(credit, candidates)
        chosen += name or "-"
    assert chosen == "abacabac"


@given(st.lists(st.tuples(WEIGHTS, st.integers(1, 30)), min_size=1, max_size=6))
def test_weighted_goes_on_when_workers_come_go_and_fill_up(
    phases: list[tuple[list[int], int]],
) -> None:
    credit: Credits = {}
    for weights, turns in phases:
        candidates = [
            Contender(name, weight=weight)
            for name, weight in zip(names(len(weights)), weights, strict=True)
        ]
        for _ in range(turns):
            credit, chosen = weighted(credit, candidates)
            assert chosen in names(len(weights))
            assert set(credit) == set(names(len(weights)))
    assert weighted(credit, [Contender("w00", 1, 1)]) == (credit, None)


# --- Least load ---


@given(LOADED, st.none() | st.sampled_from(names(12)))
def test_no_free_worker_is_less_loaded_than_the_chosen(
    loads: list[tuple[int, int]], last: str | None
) -> None:
    candidates = [
        Contender(name, active, most)
        for name, (active, most) in zip(names(len(loads)), loads, strict=True)
    ]
    free = {each.name: each for each in candidates if each.active < each.most}
    chosen = least_load(last, candidates)
    if chosen is None:
        assert not free
        return
    mine = free[chosen]
    assert all(mine.active * other.most <= other.active * mine.most for other in free.values())


@given(st.integers(1, 8), st.integers(1, 5))
def test_least_load_fills_equals_evenly(count: int, rounds: int) -> None:
    active, last = Counter[str](), None
    for _ in range(count * rounds):
        last = least_load(last, [Contender(name, active[name], rounds) for name in names(count)])
        assert last is not None
        active[last] += 1
    assert active == dict.fromkeys(names(count), rounds)


# --- Adaptive ---


def share(
    seconds: dict[str, float], failing: frozenset[str] = frozenset(), jobs: int = 2_000
) -> Counter[str]:
    """Jobs that come one at a time, each done before the next."""
    experience, counts = Experience(), Counter[str]()
    for _ in range(jobs):
        experience, chosen = adaptive(experience, [Contender(name, 0, 10) for name in seconds])
        assert chosen is not None
        counts[chosen] += 1
        experience = observe(experience, chosen, seconds[chosen], failed=chosen in failing)
    return counts


def test_the_fastest_gets_most_and_the_others_are_still_looked_at() -> None:
    counts = share({"slow": 0.5, "fast": 0.1, "middle": 0.2})
    assert counts["fast"] > 0.9 * counts.total()
    assert min(counts["slow"], counts["middle"]) >= 2_000 // EXPLORE_EVERY // 3


def test_failing_fast_does_not_look_fast() -> None:
    counts = share({"broken": 0.001, "sound": 0.1}, frozenset({"broken"}))
    assert counts["sound"] > 0.9 * counts.total()


def test_a_worker_that_is_well_again_is_found_out() -> None:
    experience = Experience()
    for _ in range(50):
        experience = observe(experience, "a", 5.0, failed=True)
        experience = observe(experience, "b", 0.2, failed=False)
    chosen = []
    for _ in range(1_000):
        experience, name = adaptive(experience, [Contender("a", 0, 5), Contender("b", 0, 5)])
        assert name is not None
        chosen.append(name)
        experience = observe(experience, name, 0.1 if name == "a" else 0.2, failed=False)
    assert Counter(chosen[-200:])["a"] > 150


def test_a_long_queue_weighs_more_than_speed_and_strangers_are_welcome() -> None:
    known = observe(observe(Experience(), "fast", 0.1, failed=False), "slow", 0.2, failed=False)
    assert adaptive(known, [Contender("fast", 5, 10), Contender("slow", 0, 10)])[1] == "slow"
    assert adaptive(known, [Contender("fast", 1, 10), Contender("new", 0, 10)])[1] == "new"
    assert adaptive(known, [Contender("fast", 10, 10)])[1] is None


def test_those_who_left_are_forgotten() -> None:
    known = observe(observe(Experience(), "a", 0.1, failed=False), "b", 0.2, failed=False)
    assert set(adaptive(known, [Contender("b")])[0].records) == {"b"}


# --- Sticky ---


@given(NAMES, st.data())
def test_only_the_leavers_keys_move_and_the_newcomers_keys_are_all_it_takes(
    workers: list[str], data: st.DataObject
) -> None:
    leaver = data.draw(st.sampled_from(workers))
    whole = [Contender(name) for name in workers]
    rest = [each for each in whole if each.name != leaver]
    for key in KEYS:
        home = sticky(key, whole)
        assert home in workers
        assert sticky(key, list(reversed(whole))) == home
        if home != leaver:
            assert sticky(key, rest) == home


def test_a_full_home_is_left_for_the_next_and_come_back_to() -> None:
    for key in KEYS:
        home = sticky(key, [Contender(name) for name in names(5)])
        full = [Contender(name, 1 if name == home else 0) for name in names(5)]
        gone = [each for each in full if each.name != home]
        assert sticky(key, full) == sticky(key, gone) != home
    assert sticky("x", [Contender("a", 1, 1)]) is None


def test_keys_spread_by_weight() -> None:
    candidates = [Contender("light", weight=1), Contender("heavy", weight=3)]
    counts = Counter(sticky(f"user {number}", candidates) for number in range(4_000))
    assert 2_800 < counts["heavy"] < 3_200
