"""Outcomes as workers write them, told apart by `kind`, and as the domain knows them."""

from typing import assert_never

import msgspec

from taskforge.domain import rules
from taskforge.domain.job import ErrorInfo, error_info
from taskforge.domain.outcome import (
    MAX_RESULT_BYTES,
    CancelOutcome,
    Crashed,
    DeadlinePassed,
    DiedBeforeStart,
    FailForGood,
    Failure,
    HandBackOutcome,
    HeartbeatMissed,
    LeaseRanOut,
    MisfitOutcome,
    Outcome,
    RetryAfter,
    SkipOutcome,
    SnoozeFor,
    Success,
    TimedOut,
    reason_text,
)


class WireOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What came of an execution; `kind` says which."""


class WireSuccess(WireOutcome, frozen=True, tag="success"):
    result: msgspec.Raw = msgspec.Raw(b"null")


class WireFailure(WireOutcome, frozen=True, tag="failure"):
    error: ErrorInfo


class WireTimeout(WireOutcome, frozen=True, tag="timeout"):
    seconds: float


class WireHeartbeatMissed(WireOutcome, frozen=True, tag="heartbeat_missed"):
    seconds: float


class WireRetry(WireOutcome, frozen=True, tag="retry"):
    seconds: float
    error: ErrorInfo


class WireFail(WireOutcome, frozen=True, tag="fail"):
    error: ErrorInfo


class WireSnooze(WireOutcome, frozen=True, tag="snooze"):
    seconds: float
    reason: str = "snoozed"


class WireCancel(WireOutcome, frozen=True, tag="cancel"):
    reason: str = "cancelled"


class WireSkip(WireOutcome, frozen=True, tag="skip"):
    reason: str = "skipped"


class WireMisfit(WireOutcome, frozen=True, tag="misfit"):
    error: ErrorInfo


class WireHandBack(WireOutcome, frozen=True, tag="hand_back"):
    reason: str = "handed back"


class WireCrashed(WireOutcome, frozen=True, tag="crashed"):
    worker: str


class WireDeadline(WireOutcome, frozen=True, tag="deadline"):
    pass


AnyWireOutcome = (
    WireSuccess
    | WireFailure
    | WireTimeout
    | WireHeartbeatMissed
    | WireRetry
    | WireFail
    | WireSnooze
    | WireCancel
    | WireSkip
    | WireMisfit
    | WireHandBack
    | WireCrashed
    | WireDeadline
)


def outcome_of(wire: AnyWireOutcome) -> Outcome:
    """What a worker reported, checked: what is stored must be readable by everyone. Reasons are
    bounded by `decide`."""
    match wire:
        case WireSuccess(result):
            document = rules.json_document("result", bytes(result), most=MAX_RESULT_BYTES)
            return Success(None if document == b"null" else document)
        case WireFailure(error):
            return Failure(_bounded(error))
        case WireTimeout(seconds):
            return TimedOut(_seconds(seconds))
        case WireHeartbeatMissed(seconds):
            return HeartbeatMissed(_seconds(seconds))
        case WireRetry(seconds, error):
            return RetryAfter(_seconds(seconds), _bounded(error))
        case WireFail(error):
            return FailForGood(_bounded(error))
        case WireSnooze(seconds, reason):
            return SnoozeFor(_seconds(seconds), reason)
        case WireCancel(reason):
            return CancelOutcome(reason)
        case WireSkip(reason):
            return SkipOutcome(reason)
        case WireMisfit(error):
            return MisfitOutcome(_bounded(error))
        case WireHandBack(reason):
            return HandBackOutcome(reason)
        case WireCrashed(worker):
            return Crashed(worker)
        case WireDeadline():
            return DeadlinePassed()
        case _:
            assert_never(wire)


def wire_of(outcome: Outcome) -> AnyWireOutcome:
    match outcome:
        case Success(result):
            return WireSuccess(msgspec.Raw(b"null" if result is None else result))
        case Failure(error):
            return WireFailure(error)
        case TimedOut(seconds):
            return WireTimeout(seconds)
        case HeartbeatMissed(seconds):
            return WireHeartbeatMissed(seconds)
        case RetryAfter(seconds, error):
            return WireRetry(seconds, error)
        case FailForGood(error):
            return WireFail(error)
        case SnoozeFor(seconds, reason):
            return WireSnooze(seconds, reason_text(reason))
        case CancelOutcome(reason):
            return WireCancel(reason_text(reason))
        case SkipOutcome(reason):
            return WireSkip(reason_text(reason))
        case MisfitOutcome(error):
            return WireMisfit(error)
        case HandBackOutcome(reason):
            return WireHandBack(reason_text(reason))
        case Crashed(worker):
            return WireCrashed(worker)
        case DeadlinePassed():
            return WireDeadline()
        case LeaseRanOut() | DiedBeforeStart():
            raise AssertionError("only a store says that of a worker")
        case _:
            assert_never(outcome)


def _bounded(error: ErrorInfo) -> ErrorInfo:
    return error_info(error.type, error.message, error.traceback)


def _seconds(value: float) -> float:
    return rules.number("seconds", value, 0, rules.MAX_SECONDS)
