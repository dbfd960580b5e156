"""Finds out who asks. What was found is remembered for two seconds, so that a revoked credential
ends soon after."""

import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from taskforge.domain.access import WORKER_PERMISSIONS, Principal, Unauthenticated, permissions_of
from taskforge.operations.access.access_tokens import AccessTokens
from taskforge.operations.access.secret import API_KEY, SESSION, WORKER_KEY, hashed
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.storage.records.kinds import RecordKinds

REMEMBER_SECONDS = 2.0
REMEMBERED_AT_MOST = 10_000
MOST_CHARACTERS = 4_096


class Gatekeeper:
    def __init__(
        self,
        records: RecordKinds,
        tenants: Tenants,
        tokens: AccessTokens,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._tenants = tenants
        self._tokens = tokens
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, Principal | None]] = {}
        self._used: set[UUID] = set()

    def known(self, credential: str) -> Principal | None:
        """Who it is, if that is still remembered: the quick way for requests that come in
        numbers."""
        found = self._known.get(credential)
        return None if found is None or found[0] < self._monotonic() else found[1]

    async def identify(self, credential: str) -> Principal:
        """Whoever holds this API key, worker key, session or access token."""
        if len(credential) > MOST_CHARACTERS:
            raise Unauthenticated
        found = self._known.get(credential)
        if found is None or found[0] < self._monotonic():
            known, until = self._known, self._monotonic() + REMEMBER_SECONDS
            found = (until, await self._find(credential))
            if len(known) >= REMEMBERED_AT_MOST:
                known.clear()
            known[credential] = found
        if found[1] is None:
            raise Unauthenticated
        return found[1]

    def forget(self) -> None:
        """After a change of keys, members or sessions made here: it holds here at once, elsewhere
        within two seconds."""
        # whoever looks just now may have read what was before, and remembers it in the old one
        self._known = {}

    async def note_use(self) -> None:
        """Write down which keys were used since the last time."""
        used, self._used = self._used, set()
        if not used:
            return
        try:
            await self._records.api_keys.mark_used(list(used))
        except BaseException:
            self._used |= used
            raise

    async def _find(self, credential: str) -> Principal | None:
        if credential.startswith((API_KEY, WORKER_KEY)):
            return await self._by_key(credential)
        if credential.startswith(SESSION):
            return await self._by_session(credential)
        try:
            claims = self._tokens.read(credential)
        except Unauthenticated:
            return None
        # A token goes with the login that it came from: signed out, or a stolen refresh token, ends
        # both.
        if not await self._records.tokens.is_alive(claims.family):
            return None
        return await self._member(claims.user, claims.organization, claims.epoch)

    async def _by_key(self, credential: str) -> Principal | None:
        key = await self._records.api_keys.with_secret(hashed(credential))
        if (
            key is None
            or key.revoked_at is not None
            or (key.expires_at is not None and key.expires_at <= self._clock())
        ):
            return None
        self._used.add(key.id)
        mine = [
            one.number for one in await self._tenants.projects_of(key.organization, key.project)
        ]
        return Principal(
            kind=key.kind,
            id=key.id,
            label=f"{key.kind}:{key.prefix}",
            organization=key.organization,
            projects=tuple(mine) if key.project is None else (key.project,),
            permissions=WORKER_PERMISSIONS if key.kind == "worker" else key.permissions,
            project=key.project,
        )

    async def _by_session(self, credential: str) -> Principal | None:
        token = await self._records.tokens.valid("session", hashed(credential))
        return None if token is None else await self._member(token.member, token.organization, None)

    async def _member(self, user: UUID, organization: int, epoch: int | None) -> Principal | None:
        found = await self._records.users.get(user)
        if (
            found is None
            or found.disabled_at is not None
            or (epoch is not None and found.epoch != epoch)
        ):
            return None
        member = next(
            (
                one
                for one in await self._records.members.of_user(user)
                if one.organization == organization
            ),
            None,
        )
        if member is None:
            return None
        return Principal(
            kind="user",
            id=user,
            label=f"user:{found.email}",
            organization=organization,
            projects=tuple(one.number for one in await self._tenants.projects_of(organization)),
            permissions=permissions_of(member.role, organization),
            role=member.role,
        )
