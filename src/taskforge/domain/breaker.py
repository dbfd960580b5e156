"""A circuit breaker as pure steps. While what it guards fails too often it is not asked at all;
then a few probes find out whether it is well again. The caller keeps the state and the clock."""

import enum
from collections.abc import Iterable

import msgspec

SLICES = 10


class Mode(enum.StrEnum):
    CLOSED = "closed"  # everything goes through, and is counted
    OPEN = "open"  # nothing goes through
    HALF_OPEN = "half_open"  # a few probes go through


class Breaker(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Opens when enough calls ended within the window and too large a share of them failed."""

    # The share of calls that must fail
    failure_share: float = 0.5
    # How many calls must have ended before it may open
    least_calls: int = 10
    # How far back calls count
    window_seconds: float = 60.0
    # How long nothing goes through before probes do
    open_seconds: float = 30.0
    # How many go through then; all of them must succeed, one after the other or at once
    probes: int = 3


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A tenth of the window, and what ended in it."""

    number: int
    good: int
    bad: int


class BreakerState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    mode: Mode = Mode.CLOSED
    since: float = 0.0
    # rises with every change of mode: an answer to a question of an earlier turn says nothing about
    # this one
    turn: int = 0
    slices: tuple[Slice, ...] = ()
    asked: int = 0  # probes under way or answered
    passed: int = 0
    asked_at: float = 0.0
    forced: bool = False  # opened by hand: time alone does not change that


class Endings(msgspec.Struct, frozen=True):
    """Calls that were let through together, and what came of them."""

    asked_at: float
    ended_at: float
    good: int = 0
    bad: int = 0
    neither: int = 0  # ended without an answer, as when they were given back


class Permit(msgspec.Struct, frozen=True):
    """`turn` is handed to `record` with the answer. `wait`: seconds until asking again may help; 0
    when it is allowed."""

    state: BreakerState
    allowed: bool
    turn: int
    wait: float


def ask(breaker: Breaker, state: BreakerState, now: float) -> Permit:
    """May one call go through?"""
    state = wake(breaker, state, now)
    if room(breaker, state) == 0:
        at = due_at(breaker, state)
        return Permit(state, False, state.turn, float("inf") if at is None else at - now)
    state = use(state, 1, now)
    return Permit(state, True, state.turn, 0.0)


def due_at(breaker: Breaker, state: BreakerState) -> float | None:
    """When time alone changes the state, if it ever does. Probes whose answers never come (a worker
    died with them) must not hold it half-open for ever."""
    if state.mode is Mode.OPEN:
        return None if state.forced else state.since + breaker.open_seconds
    if state.mode is Mode.HALF_OPEN and state.asked >= breaker.probes:
        return state.asked_at + breaker.open_seconds
    return None


def wake(breaker: Breaker, state: BreakerState, now: float) -> BreakerState:
    """The state as time has made it."""
    at = due_at(breaker, state)
    return state if at is None or at > now else _into(state, Mode.HALF_OPEN, now)


def room(breaker: Breaker, state: BreakerState) -> int | None:
    """How many calls may go through now; None: as many as there are."""
    if state.mode is Mode.CLOSED:
        return None
    return 0 if state.mode is Mode.OPEN else max(0, breaker.probes - state.asked)


def use(state: BreakerState, calls: int, now: float) -> BreakerState:
    """So many calls were let through, no more than there was room for."""
    if state.mode is Mode.CLOSED or not calls:
        return state
    return msgspec.structs.replace(state, asked=state.asked + calls, asked_at=now)


def record(
    breaker: Breaker, state: BreakerState, now: float, turn: int, *, failed: bool
) -> BreakerState:
    """What came of a call that was allowed in `turn`."""
    if turn != state.turn:
        return state
    return record_many(breaker, state, now, good=int(not failed), bad=int(failed))


def record_many(
    breaker: Breaker, state: BreakerState, now: float, *, good: int, bad: int, neither: int = 0
) -> BreakerState:
    """What came of calls that were allowed in this turn. `neither`: calls that ended without an
    answer, as when they were given back; other probes may take their places."""
    if state.mode is Mode.OPEN:
        return state
    if state.mode is Mode.HALF_OPEN:
        if bad:
            return _into(state, Mode.OPEN, now)
        passed = state.passed + good
        if passed >= breaker.probes:
            return _into(state, Mode.CLOSED, now)
        asked = max(passed, state.asked - neither)
        return msgspec.structs.replace(state, passed=passed, asked=asked)
    if not good and not bad:
        return state
    slices = _counted(breaker, state.slices, now, good=good, bad=bad)
    state = msgspec.structs.replace(state, slices=slices)
    well, ill = count(state)
    if bad and well + ill >= breaker.least_calls and ill >= breaker.failure_share * (well + ill):
        return _into(state, Mode.OPEN, now)
    return state


def record_all(breaker: Breaker, state: BreakerState, endings: Iterable[Endings]) -> BreakerState:
    """What came of calls of whom is known when they were let through: what was asked before the
    last change of mode says nothing about this one."""
    for one in sorted(endings, key=lambda each: each.ended_at):
        if one.asked_at >= state.since:
            state = record_many(
                breaker,
                state,
                one.ended_at,
                good=one.good,
                bad=one.bad,
                neither=one.neither,
            )
    return state


def force(state: BreakerState, mode: Mode, now: float) -> BreakerState:
    """By hand: open until somebody closes it, or closed with nothing counted."""
    return msgspec.structs.replace(_into(state, mode, now), forced=mode is Mode.OPEN)


def count(state: BreakerState) -> tuple[int, int]:
    """How many calls went well and how many did not, as far as they count."""
    return sum(each.good for each in state.slices), sum(each.bad for each in state.slices)


def _into(state: BreakerState, mode: Mode, now: float) -> BreakerState:
    return BreakerState(mode=mode, since=now, turn=state.turn + 1)


def _counted(
    breaker: Breaker, slices: tuple[Slice, ...], now: float, *, good: int, bad: int
) -> tuple[Slice, ...]:
    # By time and not by call, so that a quiet hour forgets; in tenths, so that the state stays
    # small however many calls there are.
    number = int(now / (breaker.window_seconds / SLICES))
    if slices and slices[-1].number > number:
        number = slices[-1].number  # the clock stepped back
    kept = tuple(each for each in slices if number - SLICES < each.number < number)
    last = slices[-1] if slices and slices[-1].number == number else Slice(number, 0, 0)
    return (*kept, Slice(number, last.good + good, last.bad + bad))
