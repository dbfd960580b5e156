"""Tokens that logins hold: sessions, refresh tokens, one-time links. Only their hashes are
stored."""

from datetime import timedelta
from uuid import UUID

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.ids import IdMint
from taskforge.domain.tenancy import Token
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.rows import first

# what ended is kept so long, that a token used twice is still known
KEPT = timedelta(days=1)


class _Count(msgspec.Struct, frozen=True):
    count: int


class Tokens:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

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
        now = await self._records.now()
        expires_at = now + timedelta(seconds=seconds)
        token = Token(kind, member, organization, family or self._mint(), now, expires_at, None)
        values = (secret, kind, member, organization, token.family, now, expires_at)
        await self._records.write(
            [
                Step("add_token", values),
                Step("remove_old_tokens", (now - KEPT,)),
                *([] if note is None else [audit_step(note, now, f"{kind} of {member}")]),
            ]
        )
        return token

    async def valid(self, kind: str, secret: bytes) -> Token | None:
        """One that is neither used nor over."""
        now = await self._records.now()
        return first(await self._records.look(Token, "valid_token", secret, kind, now))

    async def use(self, kind: str, secret: bytes) -> Token | None:
        """Take a one-time token; of two who come together one gets it. A refresh token used twice
        was stolen: its family ends."""
        now = await self._records.now()
        taken = await self._records.write([Step("use_token", (secret, kind, now))])
        token = first(await self._records.look(Token, "token", secret, kind))
        if taken[0]:
            return token
        if token is not None and token.used_at is not None and kind == "refresh":
            await self.end_family(token.family)
        return None

    async def end_family(self, family: UUID, note: Note | None = None) -> None:
        """Everything that one login began."""
        steps = [Step("remove_token_family", (family,))]
        if note is not None:
            steps.append(audit_step(note, await self._records.now(), f"login {family}"))
        await self._records.write(steps)

    async def is_alive(self, family: UUID) -> bool:
        now = await self._records.now()
        return bool(await self._records.look(_Count, "living_family", family, now))
