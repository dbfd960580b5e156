"""Organizations, projects, users, keys and what belongs to them."""

import re
from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.access import Permission, Role
from taskforge.domain.errors import Invalid, TaskForgeError

MIN_PASSWORD, MAX_PASSWORD = 12, 256


class Organization(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    name: str
    created_at: datetime


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """What one project may use; None means without limit."""

    enqueue_per_minute: int | None = None
    pending_jobs: int | None = None
    workers: int | None = None
    payload_bytes: int | None = None


class Project(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    organization: int
    name: str
    created_at: datetime


class User(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    name: str
    password: str | None  # a hash; never leaves the server
    epoch: int  # raised when every session and token of the user must end
    created_at: datetime
    disabled_at: datetime | None


class Membership(msgspec.Struct, frozen=True):
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


class AuditEntry(msgspec.Struct, frozen=True):
    number: int
    at: datetime
    actor: str
    action: str
    target: str
    organization: int | None
    project: int | None
    before: msgspec.Raw | None
    after: msgspec.Raw | None
    origin: str | None
    request: str | None


class QuotaExceeded(TaskForgeError):
    def __init__(self, quota: str, limit: int, retry_after: float) -> None:
        super().__init__(f"the project's quota {quota} of {limit:,} is used up; try again in {retry_after:.0f} s")
        self.quota = quota
        self.retry_after = retry_after


def check_email(value: str) -> str:
    rules.text("email", value, most=254)
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+|[^@\s]+@localhost", value):
        raise Invalid("email", f"{value!r} is not an address", "use one such as ada@example.com")
    return value.lower()


def check_password(value: str) -> str:
    rules.text("password", value, least=MIN_PASSWORD, most=MAX_PASSWORD)
    if len(set(value)) < 5:
        raise Invalid("password", "repeats a few characters", "use a longer phrase that is hard to guess")
    return value


def check_name(field: str, value: str) -> str:
    rules.text(field, value, most=100)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]*", value):
        raise Invalid(field, f"is {value!r}", "begin with a letter or digit; use letters, digits, spaces, dots, dashes, underscores")
    return value


def check_quota(quota: Quota) -> Quota:
    for name, most in (("enqueue_per_minute", 10**9), ("pending_jobs", 10**10), ("workers", 100_000), ("payload_bytes", 16 << 20)):
        value = getattr(quota, name)
        if value is not None:
            rules.integer(name, value, 1, most)
    return quota
