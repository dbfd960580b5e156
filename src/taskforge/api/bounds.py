"""What the API's document says of a field beyond its type. The rules that refuse are the domain's; this tells of them before."""

from typing import Any

from taskforge.api.enqueue import MOST_BULK_KEY
from taskforge.domain.access import Role
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.job import JobStatus
from taskforge.domain.log import Level
from taskforge.domain.queue import ALGORITHMS, DAY, MAX_PAYLOAD_BYTES
from taskforge.domain.rules import MAX_SECONDS
from taskforge.domain.tenancy import MAX_PASSWORD, MIN_PASSWORD
from taskforge.domain.worker import WorkerStatus
from taskforge.operations.keys import KINDS

Bound = dict[str, Any]
ACTIONS = ("cancel", "retry", "delete", "move", "redrive", "erase")


def _text(most: int, least: int = 1) -> Bound:
    return {"minLength": least, "maxLength": most, "pattern": r"^[^\u0000-\u001f\u007f]*$"}


def _number(least: float, most: float) -> Bound:
    return {"minimum": least, "maximum": most}


def _one_of(values: Any) -> Bound:
    return {"enum": [str(value) for value in values]}


_PRIORITY, _ATTEMPTS = _number(0, 9), _number(1, 10_000)
_NAME = {"minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9._-])?$"}
_EMAIL = {"minLength": 3, "maxLength": 254, "pattern": r"^[^@\s]+@([^@\s.]+\.)*[^@\s.]+$"}
_PASSWORD = _text(MAX_PASSWORD, MIN_PASSWORD)
_QUEUE = {"name": _text(100), "description": _text(1_000, 0), "priority": _PRIORITY}
_ROLE = {"role": _one_of(Role)}

FIELDS: dict[str, dict[str, Bound]] = {
    "NewJobBody": {
        "queue": _text(100),
        "job_type": _text(100),
        "priority": _PRIORITY,
        "max_attempts": _ATTEMPTS,
        "delay_seconds": _number(0, MAX_SECONDS),
        "timeout_seconds": _number(0.1, 30 * DAY),
        "tags": {"maxItems": 20, "items": {"type": "string"} | _text(100)},
        "unique_key": _text(255),
        "idempotency_key": _text(255),
        "fairness_key": _text(255),
        "trace": _text(2_000),
    },
    "JobEdit": {"priority": _PRIORITY, "queue": _text(100)},
    "JobView": {"status": _one_of(JobStatus)},
    "ExecutionView": {"status": _one_of(ExecutionStatus)},
    "LineView": {"level": _one_of(level.name.lower() for level in Level)},
    "CancelBody": {"reason": _text(500)},
    "RetryBody": {"attempts": _ATTEMPTS},
    "BulkChange": {"action": _one_of(ACTIONS), "attempts": _ATTEMPTS},
    "Matching": {"priority": _PRIORITY},
    "NewQueue": _QUEUE,
    "QueueEdit": _QUEUE,
    "WorkerEdit": {"name": _text(100), "max_concurrent_jobs": _number(1, 1_000)},
    "WorkerView": {"status": _one_of(WorkerStatus)},
    "AssignmentBody": {"weight": _number(1, 100)},
    "AssignmentEdit": {"weight": _number(1, 100)},
    "OrganizationBody": {"name": _NAME},
    "NewOrganization": {"name": _NAME, "owner_email": _EMAIL},
    "ProjectBody": {"name": _NAME},
    "ProjectEdit": {"name": _NAME},
    "Quota": {
        "enqueue_per_minute": _number(1, 10**9),
        "pending_jobs": _number(1, 10**10),
        "workers": _number(1, 100_000),
        "payload_bytes_per_minute": _number(1, 1 << 40),
    },
    "RoleBody": _ROLE,
    "MemberView": _ROLE,
    "InvitationView": _ROLE,
    "NewInvitation": {"email": _EMAIL, **_ROLE},
    "Acceptance": {"name": _NAME, "password": _PASSWORD},
    "NewKey": {"name": _NAME, "kind": _one_of(KINDS), "expires_in_days": _number(0.001, 3_650)},
    "KeyView": {"kind": _one_of(KINDS)},
    "RotateBody": {"overlap_seconds": _number(0, 30 * DAY)},
    "PasswordBody": {"new_password": _PASSWORD},
    "ResetBody": {"new_password": _PASSWORD},
    "QueueSettings": {
        "max_concurrent_jobs": _number(1, 1_000_000),
        "max_retries": _number(0, 10_000),
        "timeout_seconds": _number(0.1, 30 * DAY),
        "retry_delay_seconds": _number(0, 30 * DAY),
        "max_retry_delay_seconds": _number(0, 30 * DAY),
        "backoff_multiplier": _number(1, 100),
        "retry_jitter": _number(0, 1),
        "rate_limit": _number(0.001, 1e9),
        "rate_limit_burst": _number(1, 1_000_000_000),
        "rate_limit_algorithm": _one_of(ALGORITHMS),
        "heartbeat_timeout_seconds": _number(0.1, 30 * DAY),
        "max_crashes": _number(1, 1_000),
        "retention_days": _number(0.01, 3_650),
        "payload_limit_bytes": _number(1, MAX_PAYLOAD_BYTES),
    },
}
PARAMETERS: dict[str, Bound] = {
    "priority": _PRIORITY,
    "offset": _number(0, 1_000_000),
    "level": _one_of(level.name.lower() for level in Level),
    "before": _number(1, 2**62),
    "after": _number(0, 2**62),
    "Idempotency-Key": {"minLength": 1, "maxLength": 255},
}
BULK_PARAMETERS = PARAMETERS | {"Idempotency-Key": {"minLength": 1, "maxLength": MOST_BULK_KEY}}
