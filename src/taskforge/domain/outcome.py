"""What came of an attempt, and what follows from it. `decide` is the only place where that is
chosen: the worker, the rescuer and the timeout keeper all call it, and the engine only carries out
what it says."""

from typing import assert_never, final
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.ids import MAX_EPOCH
from taskforge.domain.job import ErrorInfo, error_info
from taskforge.domain.queue import QueueSettings

MAX_RESULT_BYTES = 1 << 20
MAX_REASON = 1_000
HELD_UP = "another job held the event loop of its worker"
LEASE_RAN_OUT = "its worker's lease ran out"
"""Why a job was given back whose worker fell silent, and nobody knows why; such losses are counted
by it."""
NOT_BEGUN = "its worker died before the job had begun"
# losses of one job that nobody can explain, or that another is blamed for; from the next on each is
# its own
MOST_UNEXPLAINED = 10
MISFIT_SECONDS = 3_600.0  # so long a job waits for a handler that its arguments fit
FIRST_PARK_SECONDS = 5.0
# of the jobs that wait for such a handler, when a worker registers; the rest follows in slices
OFFERED_AT_ONCE = 500

# --- What a handler, or the lack of one, reports --------------------------------------------------


@final
class Success(msgspec.Struct, frozen=True, gc=False):
    result: bytes | None = None
    reason: str | None = None  # why there is no result, if it was dropped


class Failure(msgspec.Struct, frozen=True):
    error: ErrorInfo


class TimedOut(msgspec.Struct, frozen=True):
    seconds: float


class HeartbeatMissed(msgspec.Struct, frozen=True):
    seconds: float


class Crashed(msgspec.Struct, frozen=True):
    """The worker, or the process that ran the job, died under it: whoever outlived it says so."""

    worker: str


class LeaseRanOut(msgspec.Struct, frozen=True):
    """The worker was not heard of for its whole lease, and nobody knows why. `losses`: how often
    that befell the job before."""

    worker: str
    losses: int = 0


class DiedBeforeStart(msgspec.Struct, frozen=True):
    """The worker died, and had not said that this job began, though workers had died under it
    before. `losses`: how often in a row that befell it."""

    worker: str
    losses: int = 0


class RetryAfter(msgspec.Struct, frozen=True):
    seconds: float
    error: ErrorInfo


class FailForGood(msgspec.Struct, frozen=True):
    error: ErrorInfo


class SnoozeFor(msgspec.Struct, frozen=True):
    seconds: float
    reason: str = "snoozed"


class CancelOutcome(msgspec.Struct, frozen=True):
    reason: str = "cancelled"


class SkipOutcome(msgspec.Struct, frozen=True):
    """This worker's handler will not take the job; another's may."""

    reason: str = "skipped"


class MisfitOutcome(msgspec.Struct, frozen=True):
    """The job's arguments do not fit this worker's handler; they may fit another's, as while a
    deploy is under way."""

    error: ErrorInfo


class HandBackOutcome(msgspec.Struct, frozen=True):
    """The worker stops before the job could end."""

    reason: str = "handed back"


class DeadlinePassed(msgspec.Struct, frozen=True):
    pass


Unsuccessful = (
    Failure
    | TimedOut
    | HeartbeatMissed
    | Crashed
    | LeaseRanOut
    | DiedBeforeStart
    | RetryAfter
    | FailForGood
    | SnoozeFor
    | CancelOutcome
    | SkipOutcome
    | MisfitOutcome
    | HandBackOutcome
    | DeadlinePassed
)
Outcome = Success | Unsuccessful

# --- What the engine then does --------------------------------------------------------------------


class ToSucceeded(msgspec.Struct, frozen=True, gc=False):
    result: bytes | None = None
    reason: str | None = None


class ToFailed(msgspec.Struct, frozen=True):
    error: ErrorInfo
    reason: str


class ToCancelled(msgspec.Struct, frozen=True):
    reason: str


class ToRetry(msgspec.Struct, frozen=True):
    delay: float
    error: ErrorInfo
    crashed: bool = False
    # its arguments fitted no handler for too long: the next one that they do not fit waits no more
    misfit: bool = False


class ToSnoozed(msgspec.Struct, frozen=True):
    delay: float
    reason: str


class ToHandBack(msgspec.Struct, frozen=True):
    reason: str


class ToSkipped(msgspec.Struct, frozen=True):
    reason: str


class ToMisfit(msgspec.Struct, frozen=True):
    """To other workers; while its arguments fit no handler, it waits for those to come. `then`:
    once it has waited long enough."""

    error: ErrorInfo
    then: "ToRetry | ToDeadLetter | ToFailed"

    @property
    def reason(self) -> str:
        return reason_text(f"its arguments do not fit this worker's handler: {self.error.message}")

    def after(self, waited: float | None) -> "Transition":
        """What follows for a job whose arguments first did not fit so many seconds ago; None: they
        do not just now."""
        return self.then if waited is not None and waited >= MISFIT_SECONDS else self


class ToDeadLetter(msgspec.Struct, frozen=True):
    queue: UUID
    error: ErrorInfo
    reason: str


Transition = (
    ToSucceeded
    | ToFailed
    | ToCancelled
    | ToRetry
    | ToSnoozed
    | ToHandBack
    | ToSkipped
    | ToMisfit
    | ToDeadLetter
)
"""The first three end the job; the others let it live on under a new epoch."""

Ending = ToSucceeded | ToFailed | ToCancelled
_ENDINGS = frozenset({ToSucceeded, ToFailed, ToCancelled})


def is_ending(transition: Transition) -> bool:
    """By type: `isinstance` of a struct goes through the checks of abstract classes, five times as
    long."""
    return type(transition) in _ENDINGS


class Finish(msgspec.Struct, frozen=True, gc=False):
    """One fenced transition; `ran` is how many seconds the handler ran, None when it never started
    or nobody knows."""

    fence: UUID
    transition: Transition
    ran: float | None = None


class Lost(msgspec.Struct, frozen=True):
    """A write that changed nothing. `cancel_requested`: the job is still the caller's, but a cancel
    came first; decide again."""

    fence: UUID
    cancel_requested: bool = False


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """What `decide` must know of the job: its numbers, this attempt and its crashes before it
    included."""

    attempt: int
    max_attempts: int
    crashes: int
    epoch: int
    cancel_requested: bool = False
    deadline_passed: bool = False


def decide(job: Attempt, outcome: Outcome, policy: QueueSettings, chance: float) -> Transition:
    """Choose what follows. `chance` in [0, 1) is the caller's random draw for jitter."""
    if type(outcome) is Success:
        # most of them; matching goes through the checks of abstract classes
        return ToSucceeded(outcome.result, outcome.reason)
    transition = _choose(job, outcome, policy, chance)
    if is_ending(transition):
        return transition
    if job.cancel_requested:
        return ToCancelled("cancelled while processing")
    if job.deadline_passed and not isinstance(transition, ToDeadLetter):
        return _deadline()
    if job.epoch >= MAX_EPOCH - 1:
        return ToFailed(
            error_info("EpochsExhausted", f"the job was claimed {job.epoch:,} times"),
            "epochs exhausted",
        )
    return transition


def _choose(
    job: Attempt, outcome: Unsuccessful, policy: QueueSettings, chance: float
) -> Transition:
    match outcome:
        case Failure(error):
            return _again(job, error, policy, policy.retry_policy.wait(job.attempt, chance))
        case TimedOut(seconds):
            error = error_info(
                "Timeout", f"the attempt ran longer than its timeout of {seconds:g} s"
            )
            return _again(job, error, policy, policy.retry_policy.wait(job.attempt, chance))
        case HeartbeatMissed(seconds):
            error = error_info("HeartbeatMissed", f"no heartbeat came for {seconds:g} s")
            return _again(job, error, policy, policy.retry_policy.wait(job.attempt, chance))
        case LeaseRanOut(_, losses) if losses < MOST_UNEXPLAINED:
            return ToHandBack(LEASE_RAN_OUT)
        case DiedBeforeStart(_, losses) if (
            policy.must_run_alone(job.crashes, job.attempt, job.max_attempts)
            and losses < MOST_UNEXPLAINED
        ):
            # whoever runs it alone says so before it begins: another job killed this worker
            return ToHandBack(NOT_BEGUN)
        case Crashed(worker) | DiedBeforeStart(worker) | LeaseRanOut(worker):
            crashes = job.crashes + 1
            error = error_info(
                "WorkerCrashed", f"worker {worker} died or lost its lease while it ran this job"
            )
            if crashes >= policy.max_crashes:
                return _exhausted(policy, error, f"poison pill: its workers died {crashes} times")
            return _again(
                job, error, policy, policy.retry_policy.wait(job.attempt, chance), crashed=True
            )
        case RetryAfter(seconds, error):
            return _again(job, error, policy, max(0.0, seconds))
        case FailForGood(error):
            return ToFailed(error, "failed for good by its handler")
        case SnoozeFor(seconds, reason):
            return ToSnoozed(max(0.0, seconds), reason_text(reason))
        case CancelOutcome(reason):
            return ToCancelled(reason_text(reason))
        case SkipOutcome(reason):
            return ToSkipped(reason_text(reason))
        case MisfitOutcome(error):
            then = _again(job, error, policy, policy.retry_policy.wait(job.attempt, chance))
            return ToMisfit(
                error,
                msgspec.structs.replace(then, misfit=True) if isinstance(then, ToRetry) else then,
            )
        case HandBackOutcome(reason):
            return ToHandBack(reason_text(reason))
        case DeadlinePassed():
            return _deadline()
        case _:
            assert_never(outcome)


def reason_text(reason: str) -> str:
    """A handler's words, bounded and as every store can hold them."""
    return rules.storable(reason)[:MAX_REASON]


def park_seconds(waited: float) -> float:
    """How long a job whose arguments fit no worker that is there is out of the way of claims before
    it is offered again. A worker that registers has it offered at once; what else may help (a
    capability, an assignment) is looked for ever more rarely."""
    return min(MISFIT_SECONDS - waited, max(FIRST_PARK_SECONDS, waited))


def _again(
    job: Attempt, error: ErrorInfo, policy: QueueSettings, delay: float, *, crashed: bool = False
) -> ToRetry | ToDeadLetter | ToFailed:
    if job.attempt >= job.max_attempts:
        return _exhausted(policy, error, f"no attempts left after {job.attempt}")
    return ToRetry(delay, error, crashed)


def _exhausted(policy: QueueSettings, error: ErrorInfo, reason: str) -> ToDeadLetter | ToFailed:
    if policy.dead_letter_queue_id is not None:
        return ToDeadLetter(policy.dead_letter_queue_id, error, reason)
    return ToFailed(error, reason)


def _deadline() -> ToFailed:
    error = error_info("DeadlinePassed", "the job's deadline passed before it succeeded")
    return ToFailed(error, "deadline passed")
