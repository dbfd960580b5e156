"""What a handler said, raised or left undone, as an outcome that `decide` understands."""

import logging

from taskforge.domain.errors import RemoteError, text_of
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed, error_info
from taskforge.domain.outcome import (
    HELD_UP,
    CancelOutcome,
    DeadlinePassed,
    FailForGood,
    Failure,
    HandBackOutcome,
    Outcome,
    RetryAfter,
    SkipOutcome,
    SnoozeFor,
    TimedOut,
)
from taskforge.worker.context import Running
from taskforge.worker.frames import frames_of
from taskforge.worker.verdicts import Cancel, Fail, Retry, Skip, Snooze, Verdict, verdict_in

logger = logging.getLogger("taskforge.worker")
AWAY = "the store was away"


def outcome_of_verdict(verdict: Verdict) -> Outcome:
    match verdict:
        case Snooze():
            return SnoozeFor(verdict.seconds, verdict.reason)
        case Retry():
            return RetryAfter(verdict.seconds, error_info("Retry", verdict.reason))
        case Fail():
            return FailForGood(error_info("Fail", verdict.reason))
        case Cancel():
            return CancelOutcome(verdict.reason)
        case Skip():
            return SkipOutcome(verdict.reason)
        case _:
            return Failure(error_info(type(verdict).__name__, text_of(verdict)))


def outcome_of_raised_verdict(error: BaseException) -> Outcome | None:
    """The outcome of a verdict that was raised. No frame of its traceback may hold it: that would
    be a cycle for each such job."""
    verdict = verdict_in(error)
    return None if verdict is None else outcome_of_verdict(verdict)


def outcome_of_stop(running: Running) -> Outcome:
    match running.why:
        case "timeout":
            return TimedOut(running.timeout_seconds)
        case "deadline":
            return DeadlinePassed()
        case "cancel":
            return CancelOutcome(running.reason or "cancelled while processing")
        case "away":
            return HandBackOutcome(AWAY)
        case "lease":
            return HandBackOutcome("its worker lost its lease and stopped it")
        case "held up":
            return HandBackOutcome(HELD_UP)
        case _:
            return HandBackOutcome(f"worker stopped ({running.why})")


def outcome_of_error(error: BaseException) -> Outcome:
    if isinstance(error, RemoteError):
        return Failure(error_info(error.name, error.message, error.frames))
    frames = frames_of(error)
    return Failure(error_info(type(error).__name__, text_of(error) or type(error).__name__, frames))


def outcome_of_nonsense(claimed: Claimed, error: Exception) -> Outcome:
    """What the handler said cannot be understood. Its end must be told all the same, or it would
    seem to run until its timeout."""
    logger.error("the outcome of job %s is not one", job_of(claimed.fence), exc_info=error)
    return Failure(
        error_info(type(error).__name__, f"the handler's outcome is not one: {text_of(error)}")
    )
