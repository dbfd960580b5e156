"""A small model of leaders that fire one schedule (R14), walked through exhaustively: each may
read, be deposed, restart and fire, in every order. No slot makes two jobs, none is left out."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import pytest

from taskforge.domain.firing import plan
from taskforge.domain.schedule import Schedule, Timing, job_template

START = datetime(2026, 5, 1, tzinfo=UTC)
STEP = timedelta(seconds=10)
LEADERS = 2
TICKS = 4
TIMING = Timing(every_seconds=10.0, starts_at=START)


class Guards(NamedTuple):
    """What a store holds to when it fires."""

    term: bool = True
    next_slot: bool = True
    key: bool = True


class State(NamedTuple):
    ticks: int = 0
    term: int = 0
    next_at: int = 0  # in steps
    slots: frozenset[int] = frozenset()
    jobs: tuple[int, ...] = ()
    # the term and the slot that each leader has read, and the time at which it did
    leaders: tuple[tuple[int, int, int] | None, ...] = (None,) * LEADERS


def schedule(next_at: int) -> Schedule:
    return Schedule(
        number=1,
        id=UUID(int=1),
        project=1,
        name="tick",
        description="",
        timing=TIMING,
        job=job_template("default", "tick"),
        is_paused=False,
        declared_by=None,
        next_at=START + next_at * STEP,
        due_at=None,
        last_slot=None,
        last_job=None,
        version=1,
        created_at=START,
        updated_at=START,
    )


def steps(state: State, guards: Guards) -> Iterator[State]:
    if state.ticks < TICKS:
        yield state._replace(ticks=state.ticks + 1)
    for index, read in enumerate(state.leaders):
        if read is None:
            # it takes the lead, and reads; or reads again under the term that it has
            for term in {state.term, min(state.term + 1, 3)}:
                fresh = (term, state.next_at, state.ticks)
                yield state._replace(term=term, leaders=_with(state.leaders, index, fresh))
        else:
            yield fired(state, index, read, guards)
            yield state._replace(leaders=_with(state.leaders, index, None))  # it dies


def fired(state: State, index: int, read: tuple[int, int, int], guards: Guards) -> State:
    term, next_at, ticks = read
    done = state._replace(leaders=_with(state.leaders, index, None))
    if (guards.term and term != state.term) or (guards.next_slot and next_at != state.next_at):
        return done
    planned = plan(schedule(next_at), START + ticks * STEP, runs=False)
    slots = [(slot - START) // STEP for slot in planned.fires]
    fresh = [slot for slot in slots if not (guards.key and slot in state.slots)]
    assert planned.next_at is not None
    return done._replace(
        next_at=(planned.next_at - START) // STEP,
        slots=state.slots | set(slots),
        jobs=tuple(sorted((*state.jobs, *fresh))),
    )


def _with(leaders: tuple[object, ...], index: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*leaders[:index], value, *leaders[index + 1 :])


def violation(guards: Guards) -> tuple[int, State | None]:
    seen, open_ = {State()}, [State()]
    while open_:
        state = open_.pop()
        twice = len(state.jobs) != len(set(state.jobs))
        left_out = state.next_at > 0 and set(range(state.next_at)) - set(state.jobs)
        if twice or left_out:
            return len(seen), state
        for following in steps(state, guards):
            if following not in seen:
                seen.add(following)
                open_.append(following)
    return len(seen), None


def test_each_slot_makes_one_job_whatever_leaders_do() -> None:
    count, wrong = violation(Guards())
    assert wrong is None, wrong
    assert count > 1_000


def test_any_one_of_the_guards_may_be_missing() -> None:
    """Term, next slot and key overlap on purpose: a deposed leader is stopped three times over."""
    for name in Guards._fields:
        _, wrong = violation(Guards()._replace(**{name: False}))
        assert wrong is None, name


@pytest.mark.parametrize("guards", [Guards(term=False, next_slot=False, key=False)])
def test_without_them_there_is_a_counterexample(guards: Guards) -> None:
    _, wrong = violation(guards)
    assert wrong is not None
