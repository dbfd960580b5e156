import msgspec
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.breaker import Breaker, BreakerState, Mode, ask, record

SMALL = Breaker(failure_share=0.5, least_calls=4, window_seconds=10.0, open_seconds=5.0, probes=2)


def called(
    state: BreakerState, now: float, *failures: bool, breaker: Breaker = SMALL
) -> BreakerState:
    for failed in failures:
        permit = ask(breaker, state, now)
        assert permit.allowed
        state = record(breaker, permit.state, now, permit.turn, failed=failed)
    return state


def opened(now: float = 100.0) -> BreakerState:
    state = called(BreakerState(), now, True, True, True, True)
    assert state.mode is Mode.OPEN
    return state


def test_opens_at_the_share_and_not_before_enough_calls() -> None:
    assert called(BreakerState(), 0.0, True, True, True).mode is Mode.CLOSED
    assert called(BreakerState(), 0.0, True, True, True, True).mode is Mode.OPEN
    assert called(BreakerState(), 0.0, False, False, False, True, True).mode is Mode.CLOSED
    assert called(BreakerState(), 0.0, False, False, True, True).mode is Mode.OPEN


def test_what_is_older_than_the_window_is_forgotten() -> None:
    state = called(BreakerState(), 0.0, True, True, True)
    assert called(state, 9.0, True).mode is Mode.OPEN
    assert called(state, 10.5, True).mode is Mode.CLOSED


def test_while_open_nothing_goes_through_and_it_says_how_long() -> None:
    state = opened()
    permit = ask(SMALL, state, 103.0)
    assert (permit.allowed, permit.wait) == (False, 2.0)
    assert permit.state == state


def test_so_many_probes_go_through_and_close_it_when_all_succeed() -> None:
    first = ask(SMALL, opened(), 105.0)
    second = ask(SMALL, first.state, 105.0)
    third = ask(SMALL, second.state, 105.0)
    assert (first.allowed, second.allowed, third.allowed) == (True, True, False)
    assert third.wait == 5.0
    state = record(SMALL, third.state, 106.0, first.turn, failed=False)
    assert state.mode is Mode.HALF_OPEN
    state = record(SMALL, state, 106.0, second.turn, failed=False)
    assert state.mode is Mode.CLOSED
    # It starts with a clean sheet.
    assert called(state, 106.0, True, True, True).mode is Mode.CLOSED


def test_one_failed_probe_opens_it_again() -> None:
    permit = ask(SMALL, opened(), 105.0)
    state = record(SMALL, permit.state, 106.0, permit.turn, failed=True)
    assert state.mode is Mode.OPEN
    assert not ask(SMALL, state, 110.9).allowed
    assert ask(SMALL, state, 111.0).allowed


def test_answers_from_before_it_opened_say_nothing() -> None:
    early = ask(SMALL, BreakerState(), 99.0)
    probe = ask(SMALL, opened(), 105.0)
    assert record(SMALL, probe.state, 105.0, early.turn, failed=True) == probe.state
    assert record(SMALL, probe.state, 105.0, early.turn, failed=False) == probe.state
    assert record(SMALL, opened(), 101.0, early.turn, failed=True) == opened()


def test_probes_that_never_answer_do_not_hold_it_half_open() -> None:
    state = ask(SMALL, ask(SMALL, opened(), 105.0).state, 105.0).state
    assert not ask(SMALL, state, 109.9).allowed
    late = ask(SMALL, state, 110.0)
    assert late.allowed


CALLS = st.lists(st.tuples(st.floats(-1, 8), st.booleans(), st.integers(0, 5)), max_size=80)


@given(
    st.builds(
        Breaker,
        failure_share=st.floats(0.05, 1.0),
        least_calls=st.integers(1, 9),
        probes=st.integers(1, 4),
    ),
    CALLS,
)
def test_whatever_happens_it_lets_nothing_through_while_open_and_few_while_half_open(
    breaker: Breaker, calls: list[tuple[float, bool, int]]
) -> None:
    """Answers come late and out of order; the state goes to the store and back at each step."""
    state, now, under_way = BreakerState(), 1e6, []
    for pause, failed, answers in calls:
        now += pause
        permit = ask(breaker, state, now)
        if state.mode is Mode.OPEN and now < state.since + breaker.open_seconds:
            assert not permit.allowed
            assert permit.wait > 0
        if permit.allowed:
            assert permit.wait == 0
            under_way.append((permit.turn, failed))
        state = permit.state
        for _ in range(min(answers, len(under_way))):
            turn, result = under_way.pop(0)
            before = state
            state = record(breaker, state, now, turn, failed=result)
            if state.mode is not before.mode:
                assert state.turn == before.turn + 1
            if before.mode is Mode.CLOSED and state.mode is Mode.OPEN:
                assert result
        assert state.asked <= breaker.probes
        assert state.passed < breaker.probes
        assert len(state.slices) <= 10
        state = msgspec.json.decode(msgspec.json.encode(state), type=BreakerState)


@given(CALLS)
def test_a_sound_dependency_is_never_cut_off(calls: list[tuple[float, bool, int]]) -> None:
    state, now = BreakerState(), 0.0
    for pause, _, _ in calls:
        now += abs(pause)
        state = called(state, now, False, breaker=Breaker())
    assert state.mode is Mode.CLOSED
