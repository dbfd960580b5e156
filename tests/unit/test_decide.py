from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain import outcome as o
from taskforge.domain.ids import MAX_EPOCH
from taskforge.domain.job import error_info
from taskforge.domain.queue import QueueSettings

ERROR = error_info("ValueError", "boom")
DEAD = UUID(int=7)
PLAIN = QueueSettings(retry_jitter=0.0)
WITH_DEAD_LETTERS = QueueSettings(retry_jitter=0.0, dead_letter_queue_id=DEAD)
FIRST = o.Attempt(attempt=1, max_attempts=3, crashes=0, epoch=1)
LAST = o.Attempt(attempt=3, max_attempts=3, crashes=0, epoch=3)
LAST_AFTER_A_CRASH = o.Attempt(attempt=3, max_attempts=3, crashes=1, epoch=3)
CRASHED_TWICE = o.Attempt(attempt=3, max_attempts=30, crashes=2, epoch=3)
ASKED_TO_STOP = o.Attempt(attempt=1, max_attempts=3, crashes=0, epoch=1, cancel_requested=True)
TOO_LATE = o.Attempt(attempt=1, max_attempts=3, crashes=0, epoch=1, deadline_passed=True)
WORN_OUT = o.Attempt(attempt=1, max_attempts=3, crashes=0, epoch=MAX_EPOCH - 1)

OUTCOMES = [
    o.Success(b"1"),
    o.Failure(ERROR),
    o.TimedOut(5.0),
    o.HeartbeatMissed(5.0),
    o.Crashed("w"),
    o.RetryAfter(9.0, ERROR),
    o.FailForGood(ERROR),
    o.SnoozeFor(9.0),
    o.CancelOutcome(),
    o.SkipOutcome(),
    o.HandBackOutcome(),
    o.DeadlinePassed(),
    o.LeaseRanOut("w"),
    o.LeaseRanOut("w", o.MOST_UNEXPLAINED),
    o.MisfitOutcome(ERROR),
    o.DiedBeforeStart("w"),
    o.DiedBeforeStart("w", o.MOST_UNEXPLAINED),
]
SPENDING = (o.Failure, o.TimedOut, o.HeartbeatMissed, o.Crashed, o.RetryAfter)

# What follows each outcome, in the order of OUTCOMES.
S, F, C, R, Z, H, K, D, M = (
    o.ToSucceeded,
    o.ToFailed,
    o.ToCancelled,
    o.ToRetry,
    o.ToSnoozed,
    o.ToHandBack,
    o.ToSkipped,
    o.ToDeadLetter,
    o.ToMisfit,
)
TABLE = [
    ("first try", FIRST, PLAIN, [S, R, R, R, R, R, F, Z, C, K, H, F, H, R, M, R, R]),
    (
        "first try, dead letters",
        FIRST,
        WITH_DEAD_LETTERS,
        [S, R, R, R, R, R, F, Z, C, K, H, F, H, R, M, R, R],
    ),
    ("last try", LAST, PLAIN, [S, F, F, F, F, F, F, Z, C, K, H, F, H, F, M, F, F]),
    (
        "last try, dead letters",
        LAST,
        WITH_DEAD_LETTERS,
        [S, D, D, D, D, D, F, Z, C, K, H, F, H, D, M, D, D],
    ),
    ("third crash", CRASHED_TWICE, PLAIN, [S, R, R, R, F, R, F, Z, C, K, H, F, H, F, M, H, F]),
    (
        "third crash, dead letters",
        CRASHED_TWICE,
        WITH_DEAD_LETTERS,
        [S, R, R, R, D, R, F, Z, C, K, H, F, H, D, M, H, D],
    ),
    (
        "asked to stop",
        ASKED_TO_STOP,
        WITH_DEAD_LETTERS,
        [S, C, C, C, C, C, F, C, C, C, C, F, C, C, C, C, C],
    ),
    (
        "past its deadline",
        TOO_LATE,
        WITH_DEAD_LETTERS,
        [S, F, F, F, F, F, F, F, C, F, F, F, F, F, F, F, F],
    ),
    (
        "out of epochs",
        WORN_OUT,
        WITH_DEAD_LETTERS,
        [S, F, F, F, F, F, F, F, C, F, F, F, F, F, F, F, F],
    ),
]


@pytest.mark.parametrize(
    ("job", "policy", "outcome", "expected"),
    [
        pytest.param(job, policy, outcome, expected, id=f"{name}-{type(outcome).__name__}")
        for name, job, policy, row in TABLE
        for outcome, expected in zip(OUTCOMES, row, strict=True)
    ],
)
def test_what_follows_an_outcome(
    job: o.Attempt, policy: QueueSettings, outcome: o.Outcome, expected: type[o.Transition]
) -> None:
    assert isinstance(o.decide(job, outcome, policy, 0.5), expected)


def test_the_table_covers_every_outcome() -> None:
    assert {type(outcome) for outcome in OUTCOMES} == set(o.Outcome.__args__)


def test_arguments_that_do_not_fit_fail_like_any_other_once_they_have_waited_long_enough() -> None:
    waits = o.decide(FIRST, o.MisfitOutcome(ERROR), PLAIN, 0.5)
    assert isinstance(waits, o.ToMisfit)
    assert waits.after(None) is waits
    assert waits.after(o.MISFIT_SECONDS - 1) is waits
    assert waits.after(o.MISFIT_SECONDS) == o.ToRetry(1.0, ERROR, misfit=True)
    last = o.decide(LAST, o.MisfitOutcome(ERROR), WITH_DEAD_LETTERS, 0.5)
    assert isinstance(last, o.ToMisfit)
    assert last.then == o.ToDeadLetter(DEAD, ERROR, "no attempts left after 3")


def test_a_job_that_fits_nobody_is_looked_at_ever_more_rarely_and_never_beyond_its_time() -> None:
    assert [o.park_seconds(waited) for waited in (0, 4, 60, 1_000, 3_000, 3_600, 4_000)] == [
        5,
        5,
        60,
        1_000,
        600,
        0,
        -400,
    ]


def test_details_travel_with_the_decision() -> None:
    assert o.decide(FIRST, o.Success(b"42"), PLAIN, 0.5) == o.ToSucceeded(b"42")
    assert o.decide(FIRST, o.Failure(ERROR), PLAIN, 0.5) == o.ToRetry(1.0, ERROR)
    assert o.decide(FIRST, o.RetryAfter(9.0, ERROR), PLAIN, 0.5) == o.ToRetry(9.0, ERROR)
    assert o.decide(FIRST, o.RetryAfter(-9.0, ERROR), PLAIN, 0.5) == o.ToRetry(0.0, ERROR)
    assert o.decide(FIRST, o.SnoozeFor(4.0, "later"), PLAIN, 0.5) == o.ToSnoozed(4.0, "later")
    assert o.decide(FIRST, o.SnoozeFor(-4.0), PLAIN, 0.5) == o.ToSnoozed(0.0, "snoozed")
    assert o.decide(LAST, o.Failure(ERROR), PLAIN, 0.5) == o.ToFailed(
        ERROR, "no attempts left after 3"
    )
    assert o.decide(LAST, o.Failure(ERROR), WITH_DEAD_LETTERS, 0.5) == o.ToDeadLetter(
        DEAD, ERROR, "no attempts left after 3"
    )
    assert o.decide(ASKED_TO_STOP, o.Failure(ERROR), PLAIN, 0.5) == o.ToCancelled(
        "cancelled while processing"
    )
    poison = o.decide(CRASHED_TWICE, o.Crashed("w"), PLAIN, 0.5)
    assert isinstance(poison, o.ToFailed)
    assert poison.reason == "poison pill: its workers died 3 times"
    late = o.decide(TOO_LATE, o.Failure(ERROR), PLAIN, 0.5)
    assert isinstance(late, o.ToFailed)
    assert (late.reason, late.error.type) == ("deadline passed", "DeadlinePassed")


def test_only_a_crash_counts_as_one() -> None:
    for outcome in OUTCOMES:
        decided = o.decide(FIRST, outcome, PLAIN, 0.5)
        if isinstance(decided, o.ToRetry):
            assert decided.crashed == isinstance(
                outcome, o.Crashed | o.DiedBeforeStart | o.LeaseRanOut
            )


def test_the_last_attempt_after_a_crash_is_not_lost_to_what_killed_its_worker_before_it_began() -> (
    None
):
    assert PLAIN.must_run_alone(1, 3, 3)
    assert not PLAIN.must_run_alone(1, 2, 3)
    assert not PLAIN.must_run_alone(0, 3, 3)  # a crash says little, and none says nothing
    decided = o.decide(LAST_AFTER_A_CRASH, o.DiedBeforeStart("w"), PLAIN, 0.5)
    assert decided == o.ToHandBack(o.NOT_BEGUN)
    assert isinstance(o.decide(LAST_AFTER_A_CRASH, o.Crashed("w"), PLAIN, 0.5), o.ToFailed)


def test_ten_losses_that_nobody_can_explain_are_no_crash_and_the_next_is() -> None:
    for losses in range(o.MOST_UNEXPLAINED):
        assert o.decide(LAST, o.LeaseRanOut("w", losses), PLAIN, 0.5) == o.ToHandBack(
            o.LEASE_RAN_OUT
        )
    counted = o.decide(FIRST, o.LeaseRanOut("w", 10), PLAIN, 0.5)
    assert isinstance(counted, o.ToRetry)
    assert counted.crashed
    poison = o.decide(CRASHED_TWICE, o.LeaseRanOut("w", 12), PLAIN, 0.5)
    assert isinstance(poison, o.ToFailed)
    assert poison.reason == "poison pill: its workers died 3 times"


def test_the_last_exhausted_attempt_past_its_deadline_still_reaches_the_dead_letter_queue() -> None:
    job = o.Attempt(attempt=3, max_attempts=3, crashes=0, epoch=3, deadline_passed=True)
    assert isinstance(o.decide(job, o.Failure(ERROR), WITH_DEAD_LETTERS, 0.5), o.ToDeadLetter)


ATTEMPTS = st.builds(
    o.Attempt,
    attempt=st.integers(1, 20),
    max_attempts=st.integers(1, 20),
    crashes=st.integers(0, 6),
    epoch=st.integers(1, MAX_EPOCH),
    cancel_requested=st.booleans(),
    deadline_passed=st.booleans(),
)
POLICIES = st.sampled_from(
    [PLAIN, WITH_DEAD_LETTERS, QueueSettings(max_crashes=1), QueueSettings(max_retries=0)]
)


@given(ATTEMPTS, st.sampled_from(OUTCOMES), POLICIES, st.floats(0, 1, exclude_max=True))
def test_the_answer_is_one_of_the_closed_set_and_never_exceeds_a_budget(
    job: o.Attempt, outcome: o.Outcome, policy: QueueSettings, chance: float
) -> None:
    decided = o.decide(job, outcome, policy, chance)
    assert isinstance(decided, o.Transition)
    if isinstance(decided, o.ToRetry):
        assert job.attempt < job.max_attempts
        assert decided.delay >= 0
        assert not decided.crashed or job.crashes + 1 < policy.max_crashes
    if isinstance(decided, o.ToDeadLetter):
        assert policy.dead_letter_queue_id is not None
    if not isinstance(decided, o.Ending):
        assert not job.cancel_requested
        assert job.epoch < MAX_EPOCH - 1
    if isinstance(outcome, o.Success):
        assert decided == o.ToSucceeded(outcome.result)


@given(
    st.lists(
        st.sampled_from([one for one in OUTCOMES if isinstance(one, SPENDING)]),
        min_size=50,
        max_size=50,
    ),
    POLICIES,
)
def test_a_job_that_only_fails_ends_within_its_budget(
    outcomes: list[o.Outcome], policy: QueueSettings
) -> None:
    attempt, crashes = 0, 0
    for outcome in outcomes:
        attempt += 1
        job = o.Attempt(
            attempt=attempt, max_attempts=policy.max_attempts, crashes=crashes, epoch=attempt
        )
        decided = o.decide(job, outcome, policy, 0.5)
        if not isinstance(decided, o.ToRetry):
            break
        crashes += decided.crashed
    assert attempt <= policy.max_attempts
    assert crashes < policy.max_crashes
