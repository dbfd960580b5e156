"""Who may do what: permissions, the roles that group them, and the principals that hold them."""

import enum
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.errors import Invalid, TaskForgeError, nearest


class Permission(enum.StrEnum):
    QUEUE_READ = "queue:read"
    QUEUE_WRITE = "queue:write"
    JOB_READ = "job:read"
    JOB_WRITE = "job:write"
    JOB_PAYLOAD = "job:payload"  # see payloads and results
    WORKER_READ = "worker:read"
    WORKER_WRITE = "worker:write"
    WORKER_RUN = "worker:run"  # a worker's work; all that a worker's key can do
    PROJECT_READ = "project:read"
    PROJECT_WRITE = "project:write"
    ADMIN_READ = "admin:read"  # members, keys, audit
    ADMIN_WRITE = "admin:write"
    PLATFORM = "platform:write"  # make organizations: the owners of the first one


class Role(enum.StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"


_VIEWER = {
    Permission.QUEUE_READ,
    Permission.JOB_READ,
    Permission.WORKER_READ,
    Permission.PROJECT_READ,
}
_OPERATOR = _VIEWER | {
    Permission.QUEUE_WRITE,
    Permission.JOB_WRITE,
    Permission.JOB_PAYLOAD,
    Permission.WORKER_WRITE,
    Permission.WORKER_RUN,
}
_ADMIN = _OPERATOR | {Permission.PROJECT_WRITE, Permission.ADMIN_READ, Permission.ADMIN_WRITE}
ROLE_PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset(_VIEWER),
    Role.OPERATOR: frozenset(_OPERATOR),
    Role.ADMIN: frozenset(_ADMIN),
    Role.OWNER: frozenset(_ADMIN),  # and may appoint and remove other owners
}
PLATFORM_ORGANIZATION = 1  # every store has it: `default`
WORKER_PERMISSIONS = frozenset({Permission.WORKER_RUN})
KEY_PERMISSIONS = ROLE_PERMISSIONS[Role.OWNER]


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever asks, once it is known who that is."""

    kind: str  # user, key, worker or system
    id: UUID
    label: str  # for the audit log: user:ada@example.com or key:tfk_3kd9
    organization: int
    projects: tuple[int, ...]  # those it may touch
    permissions: frozenset[Permission]
    role: Role | None = None
    project: int | None = None  # the one that a key stands for

    @property
    def is_owner(self) -> bool:
        return self.role is Role.OWNER


def system(projects: Iterable[int] = ()) -> Principal:
    """Whoever has the store in hand: they may do everything in the first organization."""
    return Principal(
        kind="system",
        id=UUID(int=0),
        label="system",
        organization=PLATFORM_ORGANIZATION,
        projects=tuple(projects),
        permissions=frozenset(Permission),
        role=Role.OWNER,
    )


class Unauthenticated(TaskForgeError):
    """Nobody we know: a missing, wrong, expired or revoked credential. From outside all of them
    look alike."""

    def __init__(
        self,
        message: str = "this needs a valid credential: an API key or access token as "
        "`Authorization: Bearer …`",
    ) -> None:
        super().__init__(message)


class Forbidden(TaskForgeError):
    """Known, but not allowed."""


class Throttled(TaskForgeError):
    """Too many tries in too short a time."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"too many tries; wait {seconds:.0f} s")
        self.retry_after = seconds


class Crowded(Throttled):
    """Too many of something at the same time: one of them has to end first."""

    def __init__(self, message: str, limit: int, retry_after: float = 5.0) -> None:
        super().__init__(retry_after, message)
        self.limit = limit


def need(principal: Principal, permission: Permission) -> None:
    if permission not in principal.permissions:
        raise Forbidden(
            f"this needs the permission {permission}, which {principal.label} does not have"
        )


def permissions_of(role: Role, organization: int) -> frozenset[Permission]:
    granted = ROLE_PERMISSIONS[role]
    return (
        granted | {Permission.PLATFORM}
        if role is Role.OWNER and organization == PLATFORM_ORGANIZATION
        else granted
    )


def parse_role(value: Any, field: str = "role") -> Role:
    try:
        return Role(value)
    except ValueError:
        raise Invalid(field, f"is {value!r}", "use one of " + ", ".join(Role)) from None


def parse_permissions(
    values: Any, allowed: frozenset[Permission] = KEY_PERMISSIONS, field: str = "permissions"
) -> frozenset[Permission]:
    """A list of permissions, or of families such as `job:*`."""
    if (
        isinstance(values, str)
        or not isinstance(values, list | tuple | set | frozenset)
        or not values
    ):
        raise Invalid(
            field, "is not a list of permissions", "use a list such as ['job:read', 'job:write']"
        )
    found: set[Permission] = set()
    for place, value in enumerate(values):
        text = str(value)
        matches = {
            one
            for one in allowed
            if one == text or (text.endswith(":*") and one.startswith(text[:-1]))
        }
        if not matches:
            near = nearest(text, [str(one) for one in allowed])
            hint = f"did you mean {near!r}?" if near else "use one of " + ", ".join(sorted(allowed))
            raise Invalid(
                f"{field}[{place}]", f"{text!r} is not a permission that can be given here", hint
            )
        found |= matches
    return frozenset(found)
