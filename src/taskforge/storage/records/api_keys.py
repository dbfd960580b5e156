"""API keys, for programs and for workers. Of their secrets only hashes are stored."""

from datetime import datetime
from functools import partial
from uuid import UUID

import msgspec

from taskforge.domain.access import Permission
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict
from taskforge.domain.ids import IdMint
from taskforge.domain.tenancy import ApiKey
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.rows import first


class ApiKeys:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

    async def of_organization(self, organization: int) -> list[ApiKey]:
        return await self._records.look(ApiKey, "api_keys", organization)

    async def get(self, identifier: UUID) -> ApiKey | None:
        return first(await self._records.look(ApiKey, "api_key", identifier))

    async def with_secret(self, secret: bytes) -> ApiKey | None:
        """Also one that is over: whoever asks looks at the times."""
        return first(await self._records.look(ApiKey, "api_key_with_secret", secret))

    async def create(
        self,
        organization: int,
        project: int | None,
        kind: str,
        name: str,
        prefix: str,
        secret: bytes,
        permissions: frozenset[Permission],
        expires_at: datetime | None,
        note: Note,
    ) -> ApiKey:
        now, identifier = await self._records.now(), self._mint()
        key = ApiKey(
            identifier,
            organization,
            project,
            kind,
            name,
            prefix,
            permissions,
            note.actor,
            now,
            expires_at,
            None,
            None,
            None,
        )
        after = {
            "name": name,
            "kind": kind,
            "permissions": sorted(permissions),
            "expires_at": expires_at,
        }
        await self._records.write(
            [
                _add_step(key, secret),
                audit_step(note, now, _target(key), project=project, after=after),
            ]
        )
        return key

    async def rotate(
        self, old: ApiKey, prefix: str, secret: bytes, old_expires_at: datetime, note: Note
    ) -> ApiKey:
        """A new key like the old one, which goes on until `old_expires_at`. Once: a second one
        would inherit that end."""
        now, identifier = await self._records.now(), self._mint()
        key = msgspec.structs.replace(
            old,
            id=identifier,
            prefix=prefix,
            created_by=note.actor,
            created_at=now,
            last_used_at=None,
        )
        before = {"prefix": old.prefix}
        after = {"prefix": prefix, "old_expires_at": old_expires_at}
        steps = [
            Step("end_rotated_api_key", (old.id, identifier, old_expires_at, now), Conflict),
            _add_step(key, secret),
            audit_step(note, now, _target(old), project=old.project, before=before, after=after),
        ]
        try:
            await self._records.write(steps)
        except Conflict:
            raise _not_rotated(await self.get(old.id) or old) from None
        return key

    async def revoke(self, key: ApiKey, note: Note) -> None:
        now = await self._records.now()
        revoked = partial(Conflict, f"key {key.prefix} is revoked already")
        before = {"name": key.name}
        await self._records.write(
            [
                Step("revoke_api_key", (key.id, now), revoked),
                audit_step(note, now, _target(key), project=key.project, before=before),
            ]
        )

    async def mark_used(self, keys: list[UUID]) -> None:
        """Not exact to the second: written now and then, never in a request's way."""
        now = await self._records.now()
        await self._records.write([Step("mark_api_key_used", (key, now)) for key in sorted(keys)])


def _target(key: ApiKey) -> str:
    return f"key {key.prefix} ({key.id})"


def _add_step(key: ApiKey, secret: bytes) -> Step:
    values = (
        key.id,
        key.organization,
        key.project,
        key.kind,
        key.name,
        key.prefix,
        secret,
        " ".join(sorted(key.permissions)),
        key.created_by,
        key.created_at,
        key.expires_at,
    )
    return Step("add_api_key", values)


def _not_rotated(key: ApiKey) -> Conflict:
    if key.rotated_to is not None:
        return Conflict(
            f"key {key.prefix} was rotated already; rotate key {key.rotated_to}, which took "
            f"its place"
        )
    if key.revoked_at is not None:
        return Conflict(f"key {key.prefix} is revoked; create a new one")
    return Conflict(f"key {key.prefix} expired at {key.expires_at}; create a new one")
