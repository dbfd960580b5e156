"""Who may do what: permissions, roles that group them, and principals that hold them."""

import enum
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
    WORKER_RUN = "worker:run"  # the worker protocol, and nothing else
    PROJECT_READ = "project:read"
    PROJECT_WRITE = "project:write"
    ADMIN_READ = "admin:read"
    ADMIN_WRITE = "admin:write"


class Role(enum.StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"


_VIEWER = {Permission.QUEUE_READ, Permission.JOB_READ, Permission.WORKER_READ, Permission.PROJECT_READ}
_OPERATOR = _VIEWER | {Permission.QUEUE_WRITE, Permission.JOB_WRITE, Permission.JOB_PAYLOAD, Permission.WORKER_WRITE}
_ADMIN = _OPERATOR | {Permission.PROJECT_WRITE, Permission.ADMIN_READ, Permission.ADMIN_WRITE}
ROLE_PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset(_VIEWER),
    Role.OPERATOR: frozenset(_OPERATOR),
    Role.ADMIN: frozenset(_ADMIN),
    Role.OWNER: frozenset(_ADMIN),  # and may appoint and remove other owners
}
WORKER_PERMISSIONS = frozenset({Permission.WORKER_RUN})
KEY_PERMISSIONS = frozenset(Permission) - WORKER_PERMISSIONS


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever asks, once it is known who that is."""

    kind: str  # user, key or worker
    id: UUID
    label: str  # for the audit log: an address or a key's name
    organization: int
    projects: tuple[int, ...]  # those it may touch
    permissions: frozenset[Permission]
    role: Role | None = None


class Unauthenticated(TaskForgeError):
    """Nobody we know: a missing, wrong, expired or revoked credential. All of them look alike from outside."""

    def __init__(self, message: str = "this needs a valid credential") -> None:
        super().__init__(message)


class Forbidden(TaskForgeError):
    def __init__(self, permission: str) -> None:
        super().__init__(f"this needs the permission {permission}")
        self.permission = permission


def parse_permissions(values: Any, allowed: frozenset[Permission], field: str = "permissions") -> frozenset[Permission]:
    """A list of permissions, or of families such as `job:*`."""
    if isinstance(values, str) or not isinstance(values, list | tuple | set | frozenset) or not values:
        raise Invalid(field, "is not a list of permissions", "use a list such as ['job:read', 'job:write']")
    found: set[Permission] = set()
    for value in values:
        family = str(value).removesuffix("*") if str(value).endswith(":*") else None
        matches = {one for one in allowed if (family is not None and one.startswith(family)) or one == value}
        if not matches:
            near = nearest(str(value), [str(one) for one in allowed])
            raise Invalid(field, f"{value!r} is not a permission a key can have", f"did you mean {near!r}?" if near else "see the list")
        found |= matches
    return frozenset(found)
