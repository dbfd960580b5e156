"""Keys as callers see them: never the secret."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.tenancy import ApiKey


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    project: str | None
    kind: str
    name: str
    prefix: str
    permissions: list[str]
    created_by: str
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    revoked_at: Time | None
    rotated_to: UUID | None
    """The key that took its place"""


def key_view(key: ApiKey, projects: dict[int, str]) -> KeyView:
    return KeyView(
        id=key.id,
        project=None if key.project is None else projects[key.project],
        kind=key.kind,
        name=key.name,
        prefix=key.prefix,
        permissions=sorted(key.permissions),
        created_by=key.created_by,
        created_at=key.created_at,
        expires_at=key.expires_at,
        last_used_at=key.last_used_at,
        revoked_at=key.revoked_at,
        rotated_to=key.rotated_to,
    )
