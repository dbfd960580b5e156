"""Organizations, projects, users, keys, and the rules they obey."""

import re
from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.access import Permission, Role
from taskforge.domain.errors import Conflict, Invalid, TaskForgeError
from taskforge.domain.versions import mark_of

FIRST_PROJECT = 1  # every store has it: `default` of the first organization
MIN_PASSWORD, MAX_PASSWORD = 12, 256


class Ceiling(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What one organization may have in all its projects, set by the platform's owner; None means
    without limit. Its own quotas divide what is under it."""

    projects: int | None = None
    queues: int | None = None
    pending_jobs: int | None = None  # pending and scheduled
    workers: int | None = None
    enqueue_per_minute: int | None = None
    bytes_per_minute: int | None = None  # of payloads, results and logs
    stored_bytes: int | None = None  # likewise, as the store keeps them
    streams: int | None = None  # of events, at each server

    @property
    def limits_rates(self) -> bool:
        return self.enqueue_per_minute is not None or self.bytes_per_minute is not None


class Organization(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    name: str
    created_at: datetime
    most_projects: int | None = None
    most_queues: int | None = None
    most_pending_jobs: int | None = None
    most_workers: int | None = None
    most_enqueue_per_minute: int | None = None
    most_bytes_per_minute: int | None = None
    most_stored_bytes: int | None = None
    most_streams: int | None = None

    @property
    def ceiling(self) -> Ceiling:
        return Ceiling(
            **{name: getattr(self, f"most_{name}") for name in Ceiling.__struct_fields__}
        )


class Quota(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What one project may use; None means without limit."""

    enqueue_per_minute: int | None = None
    pending_jobs: int | None = None  # pending and scheduled
    workers: int | None = None
    payload_bytes_per_minute: int | None = None
    schedules: int | None = None

    @property
    def limits_jobs(self) -> bool:
        return self != Quota(workers=self.workers, schedules=self.schedules)


class Project(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    organization: int
    name: str
    created_at: datetime
    enqueue_per_minute: int | None
    pending_jobs: int | None
    workers: int | None
    payload_bytes_per_minute: int | None
    schedules: int | None = None
    version: int = 1

    @property
    def mark(self) -> str:
        """Of this project at this version: by its name alone another could be meant after a
        while."""
        return mark_of(self.id, self.version)

    @property
    def quota(self) -> Quota:
        return Quota(
            enqueue_per_minute=self.enqueue_per_minute,
            pending_jobs=self.pending_jobs,
            workers=self.workers,
            payload_bytes_per_minute=self.payload_bytes_per_minute,
            schedules=self.schedules,
        )


class User(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    name: str
    password: str | None  # a hash; never leaves the server
    epoch: int  # raised when every session and token of the user must end
    created_at: datetime
    disabled_at: datetime | None


class Member(msgspec.Struct, frozen=True):
    organization: int
    user: UUID
    email: str
    name: str
    role: Role
    created_at: datetime


class Invitation(msgspec.Struct, frozen=True):
    id: UUID
    organization: int
    email: str
    role: Role
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None


class ApiKey(msgspec.Struct, frozen=True):
    id: UUID
    organization: int
    project: int | None  # None: every project of the organization
    kind: str  # key or worker
    name: str
    prefix: str
    permissions: frozenset[Permission]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    rotated_to: UUID | None  # the key that took its place


class Token(msgspec.Struct, frozen=True):
    """A session, a refresh token, a password reset or a one-time login. Only its hash is stored."""

    kind: str
    member: UUID
    organization: int
    family: UUID
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None


class QuotaExceeded(TaskForgeError):
    whose = "the project's quota"

    def __init__(self, quota: str, limit: int, retry_after: float) -> None:
        super().__init__(
            f"{self.whose} {quota} of {limit:,} is used up; try again in "
            f"{max(1, round(retry_after))} s"
        )
        self.quota = quota
        self.limit = limit
        self.retry_after = retry_after


class RateCeilingReached(QuotaExceeded):
    """A rate of the organization: the next minute has room again."""

    whose = "the organization's ceiling"


class CeilingReached(Conflict):
    """Waiting does not help by itself: something must end, or be removed, or the platform's owner
    must allow more."""

    def __init__(self, ceiling: str, limit: int) -> None:
        super().__init__(
            f"the organization's ceiling of {limit:,} {ceiling.replace('_', ' ')} is reached; the "
            f"platform's owner sets it"
        )
        self.ceiling = ceiling
        self.limit = limit


def check_email(value: str) -> str:
    rules.text("email", value, most=254)
    if not re.fullmatch(r"[^@\s]+@([^@\s.]+\.)*[^@\s.]+", value):
        raise Invalid("email", f"{value!r} is not an address", "use one such as ada@example.com")
    return value.lower()


def check_password(value: str) -> str:
    rules.text("password", value, least=MIN_PASSWORD, most=MAX_PASSWORD)
    if len(set(value)) < 5:
        raise Invalid(
            "password", "repeats a few characters", "use a longer phrase that is hard to guess"
        )
    return value


def check_name(field: str, value: str) -> str:
    rules.text(field, value, most=100)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]*", value) or value != value.strip():
        raise Invalid(
            field,
            f"is {value!r}",
            "begin with a letter or digit; use letters, digits, spaces, dots, dashes, underscores",
        )
    return value


def check_quota(quota: Quota) -> Quota:
    for name, most in (
        ("enqueue_per_minute", 10**9),
        ("pending_jobs", 10**10),
        ("workers", 100_000),
        ("payload_bytes_per_minute", 1 << 40),
        ("schedules", 1_000_000),
    ):
        value = getattr(quota, name)
        if value is not None:
            rules.integer(f"quota.{name}", value, 1, most)
    return quota


def check_ceiling(ceiling: Ceiling) -> Ceiling:
    for name, most in (
        ("projects", 1_000_000),
        ("queues", 1_000_000),
        ("pending_jobs", 10**10),
        ("workers", 100_000),
        ("enqueue_per_minute", 10**9),
        ("bytes_per_minute", 1 << 40),
        ("stored_bytes", 1 << 50),
        ("streams", 100_000),
    ):
        value = getattr(ceiling, name)
        if value is not None:
            rules.integer(f"ceiling.{name}", value, 0, most)
    return ceiling
