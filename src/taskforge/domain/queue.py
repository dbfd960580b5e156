"""Queues, their settings, and the rules both obey."""

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Self
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.balancer import LOAD_BALANCING, PULL
from taskforge.domain.breaker import Breaker
from taskforge.domain.circuit import parse_breaker
from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.fairness import Fairness, parse_fairness
from taskforge.domain.limiter import Adaptive, Bucket, FixedRate, LeakyBucket, TokenBucket
from taskforge.domain.retry import RetryPolicy
from taskforge.domain.urgency import Pacing, Urgency, parse_pacing, urgency_of

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_ATTEMPTS = 3
DAY = 86_400.0
ALGORITHMS = ("token_bucket", "fixed_rate", "leaky_bucket", "adaptive")


class QueueSettings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an operator may tune per queue. Times carry their unit in the name."""

    # How many of its jobs may run at once, across all workers
    max_concurrent_jobs: int | None = None
    # How often a failed job is tried again; jobs may ask for their own `max_attempts`
    max_retries: int | None = None
    # How long one attempt may run, from its start
    timeout_seconds: float = 300.0
    # The wait before the first retry
    retry_delay_seconds: float = 1.0
    # The longest wait before a retry
    max_retry_delay_seconds: float = 300.0
    # By how much each wait is longer than the one before
    backoff_multiplier: float = 2.0
    # The share of a wait by which it is spread at random, so that retries do not come back together
    retry_jitter: float = 0.2
    # Where jobs go that have no attempts left: a queue of the same project
    dead_letter_queue_id: UUID | None = None
    # How many jobs may start in a minute, across all workers
    rate_limit: float | None = None
    # How many may start at once after a pause; one second's worth by default
    rate_limit_burst: int | None = None
    # How the rate limit is kept
    rate_limit_algorithm: str = "token_bucket"
    # How long a handler may be silent; it must then call `ctx.heartbeat()`
    heartbeat_timeout_seconds: float | None = None
    # After how many deaths of its workers a job counts as a poison pill
    max_crashes: int = 3
    # Whether jobs may be enqueued while the queue is paused
    accept_while_paused: bool = False
    # How long its finished jobs are kept; else the process setting decides
    retention_days: float | None = None
    # The largest payload, as JSON
    payload_limit_bytes: int = 262_144
    # Whether its jobs take turns by their `fairness_key`, and how: `{}` for equal shares
    fairness: Fairness | None = None
    # Whether a job type of it that fails too often is held back for a while, and when: `{}` for the
    # defaults
    circuit_breaker: Breaker | None = None
    # Who gets its jobs: whoever is free (`pull`), or the worker that the leader places them on
    load_balancing: str = PULL
    # After so many seconds of waiting, and again after as many, a job goes as one of the next
    # priority, up to 9
    age_boost: float | None = None
    # How long jobs of lower priorities wait at least while more are ready than slots are free:
    # `{}` for 30, 10 and 5 s
    priority_pacing: Pacing | None = None

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Check every setting; an unknown key names the nearest known one."""
        for name in values:
            if name not in _CHECKS:
                raise rules.unknown("settings", name, tuple(_CHECKS))
        checked = {
            name: _CHECKS[name](f"settings.{name}", value)
            for name, value in values.items()
            if value is not None or name not in _OPTIONAL
        }
        settings = cls(**checked)
        if settings.max_retry_delay_seconds < settings.retry_delay_seconds:
            raise Invalid(
                "settings.max_retry_delay_seconds",
                f"is {settings.max_retry_delay_seconds:g}, less than retry_delay_seconds",
                f"use at least {settings.retry_delay_seconds:g}",
            )
        if settings.rate_limit_burst is not None and settings.rate_limit is None:
            raise Invalid(
                "settings.rate_limit_burst",
                "is set without rate_limit",
                "set rate_limit (jobs per minute) too",
            )
        if settings.rate_limit_algorithm != ALGORITHMS[0] and settings.rate_limit is None:
            raise Invalid(
                "settings.rate_limit_algorithm",
                "is set without rate_limit",
                "set rate_limit (jobs per minute) too",
            )
        if settings.rate_limit_algorithm == "fixed_rate" and settings.rate_limit_burst is not None:
            raise Invalid(
                "settings.rate_limit_burst",
                "is set, but fixed_rate has no bursts",
                "remove it, or use leaky_bucket",
            )
        if settings.is_balanced and settings.fairness is not None:
            raise Invalid(
                "settings.load_balancing",
                f"is {settings.load_balancing} in a queue with fairness",
                "remove fairness, whose keys take turns as workers pull, or use pull",
            )
        if settings.age_boost is not None and settings.fairness is not None:
            raise Invalid(
                "settings.age_boost",
                "is set in a queue with fairness, whose keys take turns whatever their age",
                "remove one of the two",
            )
        if settings.age_boost is not None and settings.is_balanced:
            raise Invalid(
                "settings.age_boost",
                f"is set in a queue with load_balancing {settings.load_balancing}",
                "remove it, or use pull",
            )
        return settings

    def urgency(self, priority: int) -> Urgency | None:
        """What waiting means to its jobs of this priority; None: nothing."""
        if self.age_boost is None and self.priority_pacing is None:
            return None
        return urgency_of(self.age_boost, self.priority_pacing, priority)

    @property
    def is_balanced(self) -> bool:
        """Whether its jobs are placed on workers instead of being pulled."""
        return self.load_balancing != PULL

    @property
    def max_attempts(self) -> int:
        return DEFAULT_MAX_ATTEMPTS if self.max_retries is None else self.max_retries + 1

    def must_run_alone(self, crashes: int, attempt: int, max_attempts: int) -> bool:
        """Whether the next crash of a job that has seen one would be its last: nothing that runs
        beside it may then be the one that kills."""
        return crashes > 0 and (crashes >= self.max_crashes - 1 or attempt >= max_attempts)

    @property
    def is_gated(self) -> bool:
        """Whether claims must consult a limit kept in the store. Queues without one pay nothing."""
        return (
            self.max_concurrent_jobs is not None or self.rate_limit is not None or self.limits_keys
        )

    @property
    def limits_keys(self) -> bool:
        """Whether it has a limit for each fairness key."""
        return self.fairness is not None and self.fairness.limits_keys

    @property
    def bucket(self) -> Bucket | None:
        """The rate limit; without a burst of its own it may gather one second's worth."""
        if self.rate_limit is None:
            return None
        rate = self.rate_limit / 60
        burst = float(self.rate_limit_burst or max(1, math.ceil(rate)))
        match self.rate_limit_algorithm:
            case "fixed_rate":
                return FixedRate(rate)
            case "leaky_bucket":
                return LeakyBucket(rate, burst)
            case "adaptive":
                return Adaptive(rate, burst)
            case _:
                return TokenBucket(rate, burst)

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy(
            delay=self.retry_delay_seconds,
            most=self.max_retry_delay_seconds,
            multiplier=self.backoff_multiplier,
            jitter=self.retry_jitter,
        )


def _identifier(field: str, value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, TypeError, AttributeError):
        raise Invalid(
            field, f"is {value!r}, not an id", "use the id of a queue in the same project"
        ) from None


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "max_concurrent_jobs": lambda field, value: rules.integer(field, value, 1, 1_000_000),
    "max_retries": lambda field, value: rules.integer(field, value, 0, 10_000),
    "timeout_seconds": lambda field, value: rules.number(field, value, 0.1, 30 * DAY),
    "retry_delay_seconds": lambda field, value: rules.number(field, value, 0, 30 * DAY),
    "max_retry_delay_seconds": lambda field, value: rules.number(field, value, 0, 30 * DAY),
    "backoff_multiplier": lambda field, value: rules.number(field, value, 1, 100),
    "retry_jitter": lambda field, value: rules.number(field, value, 0, 1),
    "dead_letter_queue_id": _identifier,
    "rate_limit": lambda field, value: rules.number(field, value, 0.001, 1e9),
    "rate_limit_burst": lambda field, value: rules.integer(field, value, 1, 1_000_000_000),
    "rate_limit_algorithm": lambda field, value: rules.choice(field, value, ALGORITHMS),
    "heartbeat_timeout_seconds": lambda field, value: rules.number(field, value, 0.1, 30 * DAY),
    "max_crashes": lambda field, value: rules.integer(field, value, 1, 1_000),
    "accept_while_paused": rules.flag,
    "retention_days": lambda field, value: rules.number(field, value, 0.01, 3_650),
    "payload_limit_bytes": lambda field, value: rules.integer(field, value, 1, MAX_PAYLOAD_BYTES),
    "fairness": parse_fairness,
    "circuit_breaker": parse_breaker,
    "load_balancing": lambda field, value: rules.choice(field, value, LOAD_BALANCING),
    "age_boost": lambda field, value: rules.number(field, value, 0.1, 30 * DAY),
    "priority_pacing": parse_pacing,
}
_OPTIONAL = {name for name in _CHECKS if getattr(QueueSettings(), name) is None}


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    number: int  # the store's own short name for it, carried by narrow rows
    project: int
    name: str
    description: str
    priority: int
    settings: QueueSettings
    is_active: bool
    version: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None


class CreateQueue(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    priority: int = 0
    settings: QueueSettings = QueueSettings()
    is_active: bool = True


class UpdateQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Fields left at None stay as they are. `expected_version` makes a stale update fail instead of
    overwriting."""

    queue: UUID
    name: str | None = None
    description: str | None = None
    priority: int | None = None
    settings: QueueSettings | None = None
    is_active: bool | None = None
    expected_version: int | None = None


class DeleteQueue(msgspec.Struct, frozen=True, kw_only=True):
    queue: UUID
    expected_version: int | None = None


QueueChange = CreateQueue | UpdateQueue | DeleteQueue


def named(text: str, queues: Iterable[tuple[str, UUID]]) -> set[UUID]:
    """Which of these (name, id) are meant: those with that name, else the one with that id."""
    known = list(queues)
    return {identifier for name, identifier in known if name == text} or {
        one for _, one in known if str(one) == text.lower()
    }


def longest_retention(own_days: Iterable[float | None], default_days: float) -> float:
    """In days: nothing that finished longer ago is kept anywhere. Given are those of the queues
    that have one of their own."""
    return max([default_days, *(days or 0.0 for days in own_days)])


# Of a project, unless its row says otherwise: distinct combinations of queue, job type, priority
# and requirements. Each is a row that processes look up; what varies from job to job belongs in
# payloads.
MOST_LANES = 10_000


def too_many_lanes(most: int) -> Conflict:
    return Conflict(
        f"the project has {most:,} combinations of queue, job type, priority and requirements, as "
        f"many as it may have; put what varies from job to job into the payload"
    )


def queue_topic(before: Queue | None, after: Queue) -> str:
    """What readers of events hear of a change."""
    if before is None:
        return "queue.created"
    if after.deleted_at is not None:
        return "queue.deleted"
    if before.is_active != after.is_active:
        return "queue.resumed" if after.is_active else "queue.paused"
    return "queue.updated"


def check_queue(change: CreateQueue | UpdateQueue) -> None:
    if change.name is not None:
        rules.text("name", change.name, most=100)
        if change.name != change.name.strip():
            raise Invalid("name", "begins or ends with a space", "remove it")
    if change.description is not None:
        rules.text("description", change.description, least=0, most=1_000)
    if change.priority is not None:
        rules.integer("priority", change.priority, 0, 9)


def check_dead_letter(start: UUID | None, target: UUID, targets: dict[UUID, UUID | None]) -> None:
    """`targets` maps each live queue of the project to its dead letter queue: the target must be
    one, and no path may lead back."""
    field = "settings.dead_letter_queue_id"
    if target == start:
        raise Invalid(field, "is the queue itself", "use another queue of the same project")
    if target not in targets:
        raise Invalid(
            field,
            f"names {target}, which is not a queue of this project",
            "use the id of one that is",
        )
    seen = {start, target}
    following = targets[target]
    while following is not None:
        if following in seen:
            raise Invalid(
                field,
                "closes a cycle of dead letter queues",
                "use a queue whose own dead letters end elsewhere",
            )
        seen.add(following)
        following = targets.get(following)
