"""What the API's document says of a field beyond its type. The rules that refuse are the domain's;
this tells of them before."""

from typing import assert_never

from taskforge.api.entry.enqueue import MOST_BULK_KEY
from taskforge.api.schema import protocol_bounds
from taskforge.api.schema.kinds_of_bounds import Bound, number, one_of, text
from taskforge.domain.access import Role
from taskforge.domain.breaker import Mode
from taskforge.domain.cron import MOST_CHARACTERS
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.field_rules import CheckedBy, Number, Rule, Text, Whole
from taskforge.domain.job import RULES as JOB_RULES
from taskforge.domain.job import JobStatus
from taskforge.domain.job_request import NewJobBody
from taskforge.domain.log import Level
from taskforge.domain.queue import ALGORITHMS, DAY, MAX_PAYLOAD_BYTES
from taskforge.domain.rules import MAX_SECONDS
from taskforge.domain.scaling_windows import MOST_WINDOWS, MOST_WORKERS
from taskforge.domain.schedule import (
    LEAST_SECONDS,
    MOST_CAUGHT_UP,
    MOST_JITTER_SECONDS,
    MOST_SECONDS,
    CatchUp,
    Overlap,
    SlotOutcome,
)
from taskforge.domain.targets import MOST_CHARACTERS as MOST_URL
from taskforge.domain.tenancy import MAX_PASSWORD, MIN_PASSWORD
from taskforge.domain.urgency import MOST_PACE_SECONDS, Pacing
from taskforge.domain.webhook import MOST_OVERLAP_SECONDS, MOST_QUEUES, DeliveryStatus
from taskforge.domain.worker import WORKER_TYPES, WorkerStatus
from taskforge.operations.access.keys import KINDS

ACTIONS = ("cancel", "retry", "delete", "move", "redrive", "erase")


def _bound_of(rule: Rule) -> Bound:
    match rule:
        case Text(most, least):
            return text(most, least)
        case Whole(least, most) | Number(least, most):
            return number(least, most)
        case CheckedBy():
            return {}
        case _:
            assert_never(rule)


_PRIORITY, _ATTEMPTS = number(0, 9), number(1, 10_000)
_SECONDS = number(0, MAX_SECONDS)
_NAME = {
    "minLength": 1,
    "maxLength": 100,
    "pattern": "^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9._-])?$",
}
_EMAIL = {"minLength": 3, "maxLength": 254, "pattern": r"^[^@\s]+@([^@\s.]+\.)*[^@\s.]+$"}
_PASSWORD = text(MAX_PASSWORD, MIN_PASSWORD)
_QUEUE = {"name": text(100), "description": text(1_000, 0), "priority": _PRIORITY}
_ROLE = {"role": one_of(Role)}
_FAIRNESS = {"description": "Where the queue has `fairness`, its keys take turns"}

_TIMING = {
    "cron": text(MOST_CHARACTERS),
    "zone": text(100),
    "every_seconds": number(LEAST_SECONDS, MOST_SECONDS),
    "jitter_seconds": number(0, MOST_JITTER_SECONDS),
    "catch_up": one_of(CatchUp),
    "catch_up_limit": number(1, MOST_CAUGHT_UP),
    "overlap": one_of(Overlap),
}
_WEBHOOK = {
    "name": text(100),
    "url": text(MOST_URL),
    "description": text(1_000, 0),
    "kinds": {"minItems": 1, "maxItems": 50, "items": {"type": "string"} | text(100)},
    "queues": {"maxItems": MOST_QUEUES, "items": {"type": "string"} | text(100)},
    "report_seconds": number(10, 86_400),
}
_SCHEDULE = _TIMING | {
    "name": text(100),
    "declared_by": text(100),
    "description": text(1_000, 0),
    "queue": text(100),
    "job_type": text(100),
    "priority": _PRIORITY,
    "max_attempts": _ATTEMPTS,
    "timeout_seconds": number(0.1, 30 * DAY),
    "deadline_seconds": number(0, MAX_SECONDS),
    "expires_seconds": number(0, MAX_SECONDS),
    "tags": {"maxItems": 20, "items": {"type": "string"} | text(100)},
    "fairness_key": text(255) | _FAIRNESS,
}
_SCALING = {
    "provider": text(100),
    "min_workers": number(0, MOST_WORKERS),
    "max_workers": number(0, MOST_WORKERS),
    "target_utilization_percent": number(1, 100),
    "windows": {"maxItems": MOST_WINDOWS},
}
FIELDS: dict[str, dict[str, Bound]] = {
    **protocol_bounds.FIELDS,
    "NewJobBody": {
        **{
            name: bound
            for name in NewJobBody.__struct_fields__
            if name in JOB_RULES and (bound := _bound_of(JOB_RULES[name]))
        },
        "delay_seconds": _SECONDS,
        "deadline_seconds": _SECONDS,
        "expires_seconds": _SECONDS,
        "tags": {"maxItems": 20, "items": {"type": "string"} | text(100)},
        "fairness_key": text(255) | _FAIRNESS,
    },
    "JobEdit": {"priority": _PRIORITY, "queue": text(100), "delay_seconds": _SECONDS},
    "JobView": {"status": one_of(JobStatus), "fairness_key": _FAIRNESS},
    "ExecutionView": {"status": one_of(ExecutionStatus)},
    "LineView": {"level": one_of(level.name.lower() for level in Level)},
    "CancelBody": {"reason": text(500)},
    "RetryBody": {"attempts": _ATTEMPTS},
    "BulkChange": {"action": one_of(ACTIONS), "attempts": _ATTEMPTS},
    "Matching": {"priority": _PRIORITY},
    "NewQueue": _QUEUE,
    "QueueEdit": _QUEUE,
    "WorkerBody": {
        "name": text(100),
        "worker_type": one_of(WORKER_TYPES),
        "role": text(100),
        "max_concurrent_jobs": number(1, 1_000),
    },
    "WorkerEdit": {"name": text(100), "max_concurrent_jobs": number(1, 1_000)},
    "WorkerView": {"status": one_of(WorkerStatus)},
    "AssignmentBody": {"weight": number(1, 100)},
    "AssignmentEdit": {"weight": number(1, 100)},
    "CircuitBody": {"queue": text(100), "job_type": text(100), "dependency": text(100)},
    "DependencyBody": {"name": text(100)},
    "CircuitView": {"mode": one_of(Mode)},
    "ScalingBody": _SCALING,
    "ScalingEditBody": _SCALING,
    "OrganizationBody": {"name": _NAME},
    "NewOrganization": {"name": _NAME, "owner_email": _EMAIL},
    "ProjectBody": {"name": _NAME},
    "ProjectEdit": {"name": _NAME},
    "Quota": {
        "enqueue_per_minute": number(1, 10**9),
        "pending_jobs": number(1, 10**10),
        "workers": number(1, 100_000),
        "payload_bytes_per_minute": number(1, 1 << 40),
        "schedules": number(1, 1_000_000),
    },
    "NewScheduleBody": _SCHEDULE,
    "ScheduleEditBody": _SCHEDULE,
    "NewWebhookBody": _WEBHOOK,
    "WebhookEditBody": _WEBHOOK,
    "RotationBody": {"overlap_seconds": number(0, MOST_OVERLAP_SECONDS)},
    "DeliveryView": {"status": one_of(DeliveryStatus)},
    "SlotView": {"outcome": one_of(SlotOutcome)},
    "RoleBody": _ROLE,
    "MemberView": _ROLE,
    "InvitationView": _ROLE,
    "NewInvitation": {"email": _EMAIL, **_ROLE},
    "Acceptance": {"name": _NAME, "password": _PASSWORD},
    "NewKey": {"name": _NAME, "kind": one_of(KINDS), "expires_in_days": number(0.001, 3_650)},
    "KeyView": {"kind": one_of(KINDS)},
    "RotateBody": {"overlap_seconds": number(0, 30 * DAY)},
    "PasswordBody": {"new_password": _PASSWORD},
    "ResetBody": {"new_password": _PASSWORD},
    "QueueSettings": {
        "max_concurrent_jobs": number(1, 1_000_000),
        "max_retries": number(0, 10_000),
        "timeout_seconds": number(0.1, 30 * DAY),
        "retry_delay_seconds": number(0, 30 * DAY),
        "max_retry_delay_seconds": number(0, 30 * DAY),
        "backoff_multiplier": number(1, 100),
        "retry_jitter": number(0, 1),
        "rate_limit": number(0.001, 1e9),
        "rate_limit_burst": number(1, 1_000_000_000),
        "rate_limit_algorithm": one_of(ALGORITHMS),
        "heartbeat_timeout_seconds": number(0.1, 30 * DAY),
        "max_crashes": number(1, 1_000),
        "retention_days": number(0.01, 3_650),
        "payload_limit_bytes": number(1, MAX_PAYLOAD_BYTES),
        "age_boost": number(0.1, 30 * DAY),
    },
    "Pacing": dict.fromkeys(Pacing.__struct_fields__, number(0, MOST_PACE_SECONDS)),
}
PARAMETERS: dict[str, Bound] = {
    "mode": one_of(Mode),
    "priority": _PRIORITY,
    "worker_type": one_of(WORKER_TYPES),
    "offset": number(0, 1_000_000),
    "level": one_of(level.name.lower() for level in Level),
    "before": number(1, 2**62),
    "after": number(0, 2**62),
    "Idempotency-Key": {"minLength": 1, "maxLength": 255},
}
BULK_PARAMETERS = PARAMETERS | {"Idempotency-Key": {"minLength": 1, "maxLength": MOST_BULK_KEY}}
