"""A circuit breaker as pure steps. While what it guards fails too often it is not asked at all;
then a few probes find out whether it is well again. The caller keeps the state and the clock."""

import enum

import msgspec

SLICES = 10


class Mode(enum.StrEnum):
    CLOSED = "closed"  # everything goes through, and is counted
    OPEN = "open"  # nothing goes through
    HALF_OPEN = "half_open"  # a few probes go through


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """Opens when, within the window, at least `least_calls` ended and `failure_share` of them or
    more failed."""

    failure_share: float = 0.5
    least_calls: int = 10
    window_seconds: float = 60.0
    open_seconds: float = 30.0
    probes: int = 3  # so many must succeed, one after the other or at once, to close it again


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A tenth of the window, and what ended in it."""

    number: int
    good: int
    bad: int


class BreakerState(msgspec.Struct, frozen=True, kw_only=True):
    mode: Mode = Mode.CLOSED
    since: float = 0.0
    # rises with every change of mode: an answer to a question of an earlier turn says nothing about
    # this one
    turn: int = 0
    slices: tuple[Slice, ...] = ()
    asked: int = 0  # probes under way or answered
    passed: int = 0
    asked_at: float = 0.0


class Permit(msgspec.Struct, frozen=True):
    """`turn` is handed to `record` with the answer. `wait`: seconds until asking again may help; 0
    when it is allowed."""

    state: BreakerState
    allowed: bool
    turn: int
    wait: float


def ask(breaker: Breaker, state: BreakerState, now: float) -> Permit:
    """May one call go through?"""
    if state.mode is Mode.CLOSED:
        return Permit(state, True, state.turn, 0.0)
    if state.mode is Mode.OPEN:
        left = state.since + breaker.open_seconds - now
        if left > 0:
            return Permit(state, False, state.turn, left)
        state = _into(state, Mode.HALF_OPEN, now)
    if state.asked >= breaker.probes:
        # Probes whose answers never come (a worker died with them) must not hold it half-open for
        # ever.
        left = state.asked_at + breaker.open_seconds - now
        if left > 0:
            return Permit(state, False, state.turn, left)
        state = _into(state, Mode.HALF_OPEN, now)
    state = msgspec.structs.replace(state, asked=state.asked + 1, asked_at=now)
    return Permit(state, True, state.turn, 0.0)


def record(
    breaker: Breaker, state: BreakerState, now: float, turn: int, *, failed: bool
) -> BreakerState:
    """What came of a call that was allowed in `turn`."""
    if turn != state.turn or state.mode is Mode.OPEN:
        return state
    if state.mode is Mode.HALF_OPEN:
        if failed:
            return _into(state, Mode.OPEN, now)
        passed = state.passed + 1
        if passed >= breaker.probes:
            return _into(state, Mode.CLOSED, now)
        return msgspec.structs.replace(state, passed=passed)
    slices = _counted(breaker, state.slices, now, failed=failed)
    good, bad = sum(each.good for each in slices), sum(each.bad for each in slices)
    if failed and good + bad >= breaker.least_calls and bad >= breaker.failure_share * (good + bad):
        return _into(state, Mode.OPEN, now)
    return msgspec.structs.replace(state, slices=slices)


def _into(state: BreakerState, mode: Mode, now: float) -> BreakerState:
    return BreakerState(mode=mode, since=now, turn=state.turn + 1)


def _counted(
    breaker: Breaker, slices: tuple[Slice, ...], now: float, *, failed: bool
) -> tuple[Slice, ...]:
    # By time and not by call, so that a quiet hour forgets; in tenths, so that the state stays
    # small however many calls there are.
    number = int(now / (breaker.window_seconds / SLICES))
    if slices and slices[-1].number > number:
        number = slices[-1].number  # the clock stepped back
    kept = tuple(each for each in slices if number - SLICES < each.number < number)
    last = slices[-1] if slices and slices[-1].number == number else Slice(number, 0, 0)
    return (*kept, Slice(number, last.good + (not failed), last.bad + failed))
