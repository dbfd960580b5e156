"""A small model of leader and candidates, walked through exhaustively (R14): every order of looks,
renewals, slow answers, pauses and deaths within bounds. Nobody may act while another may."""

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

import pytest

from taskforge.domain import term
from taskforge.domain.term import Reign, Watch, Wish, trusted_until, watch, wish

LEASE = 4.0
NODES = (UUID(int=1), UUID(int=2))
HORIZON = 12  # ticks


class Candidate(NamedTuple):
    watch: Watch | None = None
    term: int = 0  # 0: it does not lead
    until: float = 0.0
    asked: tuple[str, float, Reign | None] | None = (
        None  # a request under way: what, since when, for what
    )
    sees: Reign | bool | None = None  # its answer, not delivered yet


class State(NamedTuple):
    now: float
    reign: Reign
    candidates: tuple[Candidate, ...]

    def leaders(self) -> list[int]:
        return [
            index for index, one in enumerate(self.candidates) if one.term and self.now < one.until
        ]


Rules = tuple[Callable[[float, float], float], Callable[[Watch, float], Wish]]
OURS: Rules = (trusted_until, lambda seen, now: wish(seen, now, handicapped=False))


def steps(state: State, rules: Rules) -> Iterator[State]:
    """Whatever may happen next: time passes, or one candidate asks, is served, or hears."""
    if state.now < HORIZON:
        yield state._replace(now=state.now + 1)
    trust, decide = rules
    for index, one in enumerate(state.candidates):
        node = NODES[index]

        def put(changed: Candidate, reign: Reign = state.reign, index: int = index) -> State:
            others = list(state.candidates)
            others[index] = changed
            return State(state.now, reign, tuple(others))

        if one.asked is None:
            if one.term and state.now < one.until:
                yield put(one._replace(asked=("renew", state.now, None)))
            else:
                if one.watch is not None and decide(one.watch, state.now) is Wish.TAKE:
                    yield put(one._replace(term=0, asked=("take", state.now, one.watch.reign)))
                yield put(one._replace(term=0, asked=("look", state.now, None)))
        elif one.sees is None:
            yield from _serve(state, one, node, put)
        else:
            yield put(_heard(one, state.now, trust))


def _serve(state: State, one: Candidate, node: UUID, put: Callable[..., State]) -> Iterator[State]:
    """The store does it, at any time after it was asked."""
    assert one.asked is not None
    what, _, seen = one.asked
    reign = state.reign
    if what == "look":
        yield put(one._replace(sees=reign))
    elif what == "renew":
        accepted = reign.term == one.term and reign.node == node
        after = Reign(reign.term, reign.beat + 1, node, LEASE) if accepted else reign
        yield put(one._replace(sees=accepted), after)
    elif seen is not None:
        accepted = (reign.term, reign.beat) == (seen.term, seen.beat)
        after = Reign(reign.term + 1, 0, node, LEASE) if accepted else reign
        yield put(one._replace(sees=accepted), after)


def _heard(one: Candidate, now: float, trust: Callable[[float, float], float]) -> Candidate:
    assert one.asked is not None
    what, asked_at, seen = one.asked
    fresh = one._replace(asked=None, sees=None)
    if what == "look":
        assert isinstance(one.sees, Reign)
        return fresh._replace(watch=watch(one.watch, one.sees, now))
    if what == "renew":
        return fresh._replace(until=trust(asked_at, LEASE)) if one.sees else fresh._replace(term=0)
    if one.sees:
        assert seen is not None
        return fresh._replace(term=seen.term + 1, until=trust(asked_at, LEASE), watch=None)
    return fresh._replace(watch=None)


def violations(rules: Rules, limit: int = 400_000) -> tuple[int, State | None]:
    """How many states there are, and the first in which two act at the same time."""
    start = State(0.0, Reign(0, 0, None, LEASE), tuple(Candidate() for _ in NODES))
    seen, open_ = {start}, [start]
    while open_:
        state = open_.pop()
        if len(state.leaders()) > 1:
            return len(seen), state
        for following in steps(state, rules):
            # beats beyond a few differ in nothing but their number
            if following not in seen and following.reign.term <= 3 and following.reign.beat <= 2:
                seen.add(following)
                open_.append(following)
        if len(seen) > limit:
            break
    return len(seen), None


def test_no_two_lead_at_the_same_time_whatever_happens_in_which_order() -> None:
    count, wrong = violations(OURS)
    assert wrong is None, wrong
    assert count > 10_000, "the model hardly moves"


def _from_the_answer(asked_at: float, lease: float) -> float:
    return asked_at + 1.5 * lease


def _at_once(seen: Watch, now: float) -> Wish:
    return Wish.TAKE if now - seen.since >= 0.25 * LEASE else Wish.WAIT


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param((_from_the_answer, OURS[1]), id="trust outlasts the lease"),
        pytest.param((trusted_until, _at_once), id="a candidate does not wait for the lease"),
    ],
)
def test_broken_rules_give_a_counterexample(broken: Rules) -> None:
    _, wrong = violations(broken)
    assert wrong is not None


def test_a_slow_renewal_does_not_lengthen_trust() -> None:
    assert trusted_until(10.0, 8.0) == 10.0 + term.TRUST * 8.0  # whenever the answer came


def test_a_free_reign_is_taken_at_once_but_servers_go_first() -> None:
    free = Watch(Reign(3, 7, None, 8.0), since=0.0)
    assert wish(free, 0.0, handicapped=False) is Wish.TAKE
    assert wish(free, 3.9, handicapped=True) is Wish.WAIT
    assert wish(free, 4.0, handicapped=True) is Wish.TAKE


def test_a_beat_begins_the_wait_anew() -> None:
    first = watch(None, Reign(3, 7, NODES[0], 8.0), 1.0)
    assert watch(first, Reign(3, 7, NODES[0], 8.0), 5.0).since == 1.0
    assert watch(first, Reign(3, 8, NODES[0], 8.0), 5.0).since == 5.0
    assert wish(first, 8.9, handicapped=False) is Wish.WAIT, "a whole lease, not what is trusted"
    assert wish(first, 9.0, handicapped=False) is Wish.TAKE
