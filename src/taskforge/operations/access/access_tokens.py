"""Access tokens: short-lived JWTs, signed with the key that the servers of one store share."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from taskforge.domain.access import Unauthenticated

SECONDS = 600
ISSUER, AUDIENCE, KIND = "taskforge", "taskforge-api", "at+jwt"
MOST_CHARACTERS = 4_096


class Claims(msgspec.Struct, frozen=True):
    user: UUID
    organization: int
    epoch: int
    family: UUID
    expires: int


class AccessTokens:
    def __init__(self, key: bytes, clock: Callable[[], datetime]) -> None:
        self._key = OctKey.import_key(key)
        self._clock = clock
        self._registry = jwt.JWTClaimsRegistry(
            now=lambda: int(clock().timestamp()),
            leeway=0,
            iss={"essential": True, "value": ISSUER},
            aud={"essential": True, "value": AUDIENCE},
            exp={"essential": True},
            iat={"essential": True},
        )

    def make(self, user: UUID, organization: int, epoch: int, family: UUID) -> tuple[str, int]:
        """The token, and how long it lives."""
        now = int(self._clock().timestamp())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": str(user),
            "org": organization,
            "epoch": epoch,
            "family": str(family),
            "iat": now,
            "exp": now + SECONDS,
        }
        return jwt.encode({"alg": "HS256", "typ": KIND}, claims, self._key), SECONDS

    def read(self, text: str) -> Claims:
        """Who it is for. One algorithm, one key, one kind: a header that asks for another is
        refused, not followed."""
        if len(text) > MOST_CHARACTERS:
            raise Unauthenticated
        try:
            token = jwt.decode(text, self._key, algorithms=["HS256"])
            if token.header.get("typ") != KIND or set(token.header) != {"alg", "typ"}:
                raise Unauthenticated
            self._registry.validate(token.claims)
            values = token.claims
            if (
                not all(type(values[name]) is int for name in ("org", "epoch", "exp", "iat"))
                or values["aud"] != AUDIENCE
            ):
                raise Unauthenticated
            return Claims(
                UUID(values["sub"]),
                values["org"],
                values["epoch"],
                UUID(values["family"]),
                values["exp"],
            )
        except (JoseError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Unauthenticated from None
