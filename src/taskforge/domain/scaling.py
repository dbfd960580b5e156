"""How many workers a queue should have: a policy, what was seen of the queue, and what follows."""

import enum
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.scaling_windows import MOST_WORKERS, ScalingWindow, read_windows, window_at
from taskforge.domain.words import counted

MOST_JOBS = 1_000_000_000
MOST_SECONDS = 7 * 86_400.0
# The capability by which a worker says which policy it was started for: by the name of its queue,
# or by its id.
SCALED_BY = "scaled_by"


class ScalingAction(enum.StrEnum):
    UP = "scale_up"
    DOWN = "scale_down"
    HOLD = "hold"


class ScalingPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one queue. Its length is what is pending and what is processed."""

    min_workers: int = 0
    max_workers: int
    target_queue_length: int = 100  # jobs for each worker
    target_utilization_percent: float = 80.0  # of the slots of its workers
    drain_seconds: float = 60.0  # within which what is there should be done
    scale_up_threshold: int = 10  # more jobs than that: more workers
    scale_down_threshold: int = 5  # fewer jobs than that: fewer workers
    scale_up_cooldown_seconds: float = 30.0
    scale_down_cooldown_seconds: float = 120.0
    missing_after_seconds: float = 120.0  # a worker that was asked for and has not come
    # how long a drained worker may go on with its jobs before it is stopped all the same
    drain_grace_seconds: float = 3_600.0
    # whether also workers may be drained and stopped that its provider did not start
    may_stop_any_worker: bool = False
    windows: tuple[ScalingWindow, ...] = ()  # of other bounds; the first that holds counts

    def at(self, now: datetime) -> "ScalingPolicy":
        """With the bounds that hold at this time."""
        window = window_at(self.windows, now)
        if window is None:
            return self
        given = {
            name: value
            for name in ("min_workers", "max_workers")
            if (value := getattr(window, name)) is not None
        }
        return msgspec.structs.replace(self, **given)


class AskedWorkers(msgspec.Struct, frozen=True):
    """Workers that were asked for and have not come yet."""

    count: int
    at: datetime


class ScalingSight(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a queue and its workers."""

    pending: int
    processing: int
    workers: int  # online and accepting, that may serve the queue
    busy_slots: int = 0
    slots: int = 0
    asked: tuple[AskedWorkers, ...] = ()
    jobs_per_second: float | None = None  # of one busy worker; None: not measured yet
    arrivals_per_second: float = 0.0
    last_up: datetime | None = None
    last_down: datetime | None = None

    @property
    def length(self) -> int:
        return self.pending + self.processing

    @property
    def utilization_percent(self) -> float:
        return 100 * self.busy_slots / self.slots if self.slots else 0.0


class ScalingAdvice(msgspec.Struct, frozen=True, kw_only=True):
    action: ScalingAction
    count: int
    reason: str
    desired: int
    coming: int  # workers that were asked for and may still come
    missing: int  # workers that were asked for too long ago


def check_policy(policy: ScalingPolicy) -> ScalingPolicy:
    for name, check in _CHECKS.items():
        check(name, getattr(policy, name))
    policy = msgspec.structs.replace(policy, windows=read_windows("windows", policy.windows))
    _check_bounds("min_workers", policy.min_workers, policy.max_workers)
    for place, window in enumerate(policy.windows):
        least = policy.min_workers if window.min_workers is None else window.min_workers
        most = policy.max_workers if window.max_workers is None else window.max_workers
        _check_bounds(f"windows[{place}].min_workers", least, most)
    if policy.scale_down_threshold > policy.scale_up_threshold:
        raise Invalid(
            "scale_down_threshold",
            f"is {policy.scale_down_threshold:,}, and scale_up_threshold is "
            f"{policy.scale_up_threshold:,}",
            "use at most as many",
        )
    return policy


def _check_bounds(field: str, least: int, most: int) -> None:
    if least > most:
        problem = f"is {least:,}, and max_workers is {most:,}"
        raise Invalid(field, problem, "use at most as many")


def evaluate(policy: ScalingPolicy, seen: ScalingSight, now: datetime) -> ScalingAdvice:
    """What to do about the queue now. Workers on their way count as if they were there, until they
    are missing. Nothing else is remembered: the same sight gives the same advice."""
    policy = policy.at(now)
    bound = now - timedelta(seconds=policy.missing_after_seconds)
    coming = sum(one.count for one in seen.asked if one.at > bound)
    missing = sum(one.count for one in seen.asked) - coming
    expected = seen.workers + coming
    desired = _desired(policy, seen)

    def advise(action: ScalingAction, count: int, reason: str) -> ScalingAdvice:
        return ScalingAdvice(
            action=action,
            count=count,
            reason=reason,
            desired=desired,
            coming=coming,
            missing=missing,
        )

    if expected < policy.min_workers:
        reason = (
            f"{counted(expected, 'worker is', 'workers are')} fewer than min_workers, "
            f"{policy.min_workers:,}"
        )
        return advise(ScalingAction.UP, max(desired, policy.min_workers) - expected, reason)
    if seen.workers > policy.max_workers:
        reason = (
            f"{counted(seen.workers, 'worker is', 'workers are')} more than max_workers, "
            f"{policy.max_workers:,}"
        )
        return advise(ScalingAction.DOWN, seen.workers - policy.max_workers, reason)
    if expected == 0 and seen.length and policy.max_workers:
        reason = f"{counted(seen.length, 'job waits', 'jobs wait')} and no worker is there"
        return advise(ScalingAction.UP, desired, reason)
    if seen.length > policy.scale_up_threshold and desired > expected:
        wait = _rest(policy.scale_up_cooldown_seconds, now, seen.last_up)
        if wait > 0:
            wanted = counted(desired, "worker is", "workers are")
            reason = f"{wanted} wanted; the cooldown ends in {wait:.0f} s"
            return advise(ScalingAction.HOLD, 0, reason)
        many = f"{counted(seen.length, 'job is', 'jobs are')} more than"
        wanted = f"{counted(desired, 'worker is', 'workers are')} wanted"
        reason = f"{many} {policy.scale_up_threshold:,}, and {wanted}"
        return advise(ScalingAction.UP, desired - expected, reason)
    if seen.length < policy.scale_down_threshold and desired < seen.workers:
        return _reduce(policy, seen, now, desired, coming, advise)
    reason = (
        f"{counted(expected, 'worker fits', 'workers fit')} {counted(seen.length, 'job', 'jobs')}"
    )
    return advise(ScalingAction.HOLD, 0, reason)


def _reduce(
    policy: ScalingPolicy,
    seen: ScalingSight,
    now: datetime,
    desired: int,
    coming: int,
    advise: Callable[[ScalingAction, int, str], ScalingAdvice],
) -> ScalingAdvice:
    """Not while workers are on their way, nor soon after a step in either direction."""
    if coming:
        reason = counted(coming, "worker is on its way", "workers are on their way")
        return advise(ScalingAction.HOLD, 0, reason)
    wait = _rest(policy.scale_down_cooldown_seconds, now, seen.last_up, seen.last_down)
    if wait > 0:
        would = counted(desired, "worker", "workers")
        reason = f"{would} would do; the cooldown ends in {wait:.0f} s"
        return advise(ScalingAction.HOLD, 0, reason)
    reason = (
        f"{counted(seen.length, 'job is', 'jobs are')} fewer than {policy.scale_down_threshold:,}, "
        f"and {counted(desired, 'worker', 'workers')} would do"
    )
    return advise(ScalingAction.DOWN, seen.workers - desired, reason)


def _desired(policy: ScalingPolicy, seen: ScalingSight) -> int:
    """Within the bounds: so many that none has more jobs than the target, that what is there is
    done in time while as much arrives as before, and that slots are as busy as they should be."""
    if policy.max_workers == 0:
        return 0
    share = policy.target_utilization_percent / 100
    wanted = [float(seen.length) / policy.target_queue_length]
    if seen.jobs_per_second:
        backlog = seen.length / (seen.jobs_per_second * policy.drain_seconds)
        wanted.append(backlog + seen.arrivals_per_second / (seen.jobs_per_second * share))
    if seen.slots and seen.workers:
        wanted.append(seen.busy_slots / (seen.slots / seen.workers) / share)
    least = max(policy.min_workers, 1 if seen.length else 0)
    # a sum of fractions may be a hair above the whole number that it stands for
    return min(policy.max_workers, max(least, math.ceil(max(wanted) - 1e-9)))


def _rest(seconds: float, now: datetime, *steps: datetime | None) -> float:
    return max((seconds - (now - at).total_seconds() for at in steps if at is not None), default=0)


def _whole(least: int, most: int) -> Callable[[str, Any], object]:
    return lambda field, value: rules.integer(field, value, least, most)


def _number(least: float, most: float) -> Callable[[str, Any], object]:
    return lambda field, value: rules.number(field, value, least, most)


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "min_workers": _whole(0, MOST_WORKERS),
    "max_workers": _whole(0, MOST_WORKERS),
    "target_queue_length": _whole(1, MOST_JOBS),
    "target_utilization_percent": _number(1, 100),
    "drain_seconds": _number(0.1, MOST_SECONDS),
    "scale_up_threshold": _whole(1, MOST_JOBS),
    "scale_down_threshold": _whole(1, MOST_JOBS),
    "scale_up_cooldown_seconds": _number(0, MOST_SECONDS),
    "scale_down_cooldown_seconds": _number(0, MOST_SECONDS),
    "missing_after_seconds": _number(1, MOST_SECONDS),
    "drain_grace_seconds": _number(0, MOST_SECONDS),
    "may_stop_any_worker": rules.flag,
}
