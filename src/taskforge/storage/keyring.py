"""API keys, tokens, throttles and the servers' shared secrets. Of every secret that a caller holds, only a hash is stored."""

from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import msgspec

from taskforge.domain.access import Permission
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict
from taskforge.domain.ids import IdMint
from taskforge.domain.tenancy import ApiKey, Token
from taskforge.storage.cabinet import Cabinet, Step, audited


class _Value(msgspec.Struct, frozen=True):
    value: bytes


class _Count(msgspec.Struct, frozen=True):
    count: int


class Keyring:
    def __init__(self, cabinet: Cabinet) -> None:
        self._cabinet = cabinet
        self._mint = IdMint()

    # --- API keys ---

    async def keys(self, organization: int) -> list[ApiKey]:
        return await self._cabinet.look(ApiKey, f"{_KEYS} where organization = $1 order by created_at, id", organization)

    async def key(self, identifier: UUID) -> ApiKey | None:
        found = await self._cabinet.look(ApiKey, f"{_KEYS} where id = $1", identifier)
        return found[0] if found else None

    async def key_with(self, secret: bytes) -> ApiKey | None:
        """Also one that is over: whoever asks looks at the times."""
        found = await self._cabinet.look(ApiKey, f"{_KEYS} where secret = $1", secret)
        return found[0] if found else None

    async def create_key(
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
        now, identifier = await self._cabinet.now(), self._mint()
        made = ApiKey(
            identifier, organization, project, kind, name, prefix, permissions, note.actor, now, expires_at, None, None, None
        )
        after = {"name": name, "kind": kind, "permissions": sorted(permissions), "expires_at": expires_at}
        await self._cabinet.write(
            [_adding(made, secret), audited(note, now, f"key {prefix} ({identifier})", project=project, after=after)]
        )
        return made

    async def rotate_key(self, old: ApiKey, prefix: str, secret: bytes, old_expires_at: datetime, note: Note) -> ApiKey:
        """A new key like the old one, which goes on until `old_expires_at`. Once: a second one would inherit that end."""
        now, identifier = await self._cabinet.now(), self._mint()
        made = msgspec.structs.replace(old, id=identifier, prefix=prefix, created_by=note.actor, created_at=now, last_used_at=None)
        ending = """
            update taskforge.api_keys set rotated_to = $2, expires_at = case when expires_at < $3 then expires_at else $3 end
            where id = $1 and rotated_to is null and revoked_at is null and (expires_at is null or expires_at > $4)"""
        after = {"prefix": prefix, "old_expires_at": old_expires_at}
        try:
            await self._cabinet.write(
                [
                    Step(ending, (old.id, identifier, old_expires_at, now), Conflict),
                    _adding(made, secret),
                    audited(
                        note, now, f"key {old.prefix} ({old.id})", project=old.project, before={"prefix": old.prefix}, after=after
                    ),
                ]
            )
        except Conflict:
            raise _not_rotated(await self.key(old.id) or old) from None
        return made

    async def revoke_key(self, key: ApiKey, note: Note) -> None:
        now = await self._cabinet.now()
        statement = "update taskforge.api_keys set revoked_at = $2 where id = $1 and revoked_at is null"
        await self._cabinet.write(
            [
                Step(statement, (key.id, now), partial(Conflict, f"key {key.prefix} is revoked already")),
                audited(note, now, f"key {key.prefix} ({key.id})", project=key.project, before={"name": key.name}),
            ]
        )

    async def used(self, keys: list[UUID]) -> None:
        """Not exact to the second: written now and then, never in a request's way."""
        now = await self._cabinet.now()
        statement = "update taskforge.api_keys set last_used_at = $2 where id = $1"
        await self._cabinet.write([Step(statement, (key, now)) for key in sorted(keys)])

    # --- Tokens ---

    async def issue(
        self,
        kind: str,
        secret: bytes,
        member: UUID,
        organization: int,
        seconds: float,
        note: Note | None = None,
        family: UUID | None = None,
    ) -> Token:
        now = await self._cabinet.now()
        token = Token(kind, member, organization, family or self._mint(), now, now + timedelta(seconds=seconds), None)
        await self._cabinet.write(
            [
                Step(
                    """insert into taskforge.tokens (token, kind, member, organization, family, created_at, expires_at)
                    values ($1, $2, $3, $4, $5, $6, $7)""",
                    (secret, kind, member, organization, token.family, now, token.expires_at),
                ),
                Step("delete from taskforge.tokens where expires_at < $1", (now - timedelta(days=1),)),
                *([] if note is None else [audited(note, now, f"{kind} of {member}")]),
            ]
        )
        return token

    async def token(self, kind: str, secret: bytes) -> Token | None:
        """One that is neither used nor over."""
        statement = f"{_TOKENS} where token = $1 and kind = $2 and used_at is null and expires_at > $3"
        found = await self._cabinet.look(Token, statement, secret, kind, await self._cabinet.now())
        return found[0] if found else None

    async def use(self, kind: str, secret: bytes) -> Token | None:
        """Take a one-time token; of two who come together one gets it. A refresh token used twice was stolen: its family ends."""
        now = await self._cabinet.now()
        statement = """
            update taskforge.tokens set used_at = $3 where token = $1 and kind = $2 and used_at is null and expires_at > $3
            returning kind"""
        taken = await self._cabinet.write([Step(statement, (secret, kind, now))])
        found = await self._cabinet.look(Token, f"{_TOKENS} where token = $1 and kind = $2", secret, kind)
        if taken[0]:
            return found[0]
        if found and found[0].used_at is not None and kind == "refresh":
            await self.end_family(found[0].family)
        return None

    async def end_family(self, family: UUID, note: Note | None = None) -> None:
        """Everything that one login began."""
        noted = [] if note is None else [audited(note, await self._cabinet.now(), f"login {family}")]
        await self._cabinet.write([Step("delete from taskforge.tokens where family = $1", (family,)), *noted])

    async def is_alive(self, family: UUID) -> bool:
        statement = "select 1 as count from taskforge.tokens where family = $1 and used_at is null and expires_at > $2 limit 1"
        return bool(await self._cabinet.look(_Count, statement, family, await self._cabinet.now()))

    # --- Throttles ---

    async def tries(self, key: str, window_seconds: float) -> int:
        """Count one more try within the window; returns how many there were before it."""
        now = await self._cabinet.now()
        begun = now - timedelta(seconds=window_seconds)
        statement = """
            insert into taskforge.throttles (key, count, since) values ($1, 1, $2)
            on conflict (key) do update set
                count = case when throttles.since <= $3 then 1 else throttles.count + 1 end,
                since = case when throttles.since <= $3 then $2 else throttles.since end
            returning count"""
        over = Step("delete from taskforge.throttles where since < $1", (begun - timedelta(hours=1),))
        answers = await self._cabinet.write([Step(statement, (key, now, begun)), over])
        return int(answers[0][0][0]) - 1

    async def tried(self, key: str, window_seconds: float) -> int:
        """How many tries there were within the window, without counting one."""
        begun = await self._cabinet.now() - timedelta(seconds=window_seconds)
        found = await self._cabinet.look(_Count, "select count from taskforge.throttles where key = $1 and since > $2", key, begun)
        return found[0].count if found else 0

    async def forgive(self, key: str) -> None:
        await self._cabinet.write([Step("delete from taskforge.throttles where key = $1", (key,))])

    # --- What the servers of one store share ---

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """The stored one, or `fresh`, stored by whoever comes first."""
        statement = "insert into taskforge.secrets (name, value, created_at) values ($1, $2, $3) on conflict (name) do nothing"
        await self._cabinet.write([Step(statement, (name, fresh, await self._cabinet.now()))])
        return (await self._cabinet.look(_Value, "select value from taskforge.secrets where name = $1", name))[0].value

    async def claim_secret(self, name: str, value: bytes) -> bool:
        """Whether this process was the first to store it: what must happen once happens there."""
        statement = """
            insert into taskforge.secrets (name, value, created_at) values ($1, $2, $3) on conflict (name) do nothing
            returning name"""
        return bool((await self._cabinet.write([Step(statement, (name, value, await self._cabinet.now()))]))[0])


_KEYS = """
select id, organization, project, kind, name, prefix, permissions, created_by, created_at, expires_at, last_used_at, revoked_at,
    rotated_to
from taskforge.api_keys
"""
_TOKENS = "select kind, member, organization, family, created_at, expires_at, used_at from taskforge.tokens"


def _adding(key: ApiKey, secret: bytes) -> Step:
    statement = """
        insert into taskforge.api_keys (id, organization, project, kind, name, prefix, secret, permissions, created_by,
            created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"""
    named = (key.id, key.organization, key.project, key.kind, key.name, key.prefix)
    return Step(statement, (*named, secret, " ".join(sorted(key.permissions)), key.created_by, key.created_at, key.expires_at))


def _not_rotated(key: ApiKey) -> Conflict:
    if key.rotated_to is not None:
        return Conflict(f"key {key.prefix} was rotated already; rotate key {key.rotated_to}, which took its place")
    if key.revoked_at is not None:
        return Conflict(f"key {key.prefix} is revoked; create a new one")
    return Conflict(f"key {key.prefix} expired at {key.expires_at}; create a new one")
