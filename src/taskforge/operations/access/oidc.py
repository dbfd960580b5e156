"""The identity provider of single sign-on: where it is, and whose address it vouches for. Only what
it signed counts."""

import asyncio
import base64
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from taskforge.domain.errors import TaskForgeError
from taskforge.domain.urls import is_loopback
from taskforge.operations.access.oidc_attempts import ATTEMPT_SECONDS, Attempts, LoginAttempt
from taskforge.settings import Settings

T = TypeVar("T")
Fetch = Callable[[str, Mapping[str, str] | None, Mapping[str, str]], Awaitable[tuple[int, bytes]]]
logger = logging.getLogger("taskforge.api")
KEPT = timedelta(minutes=10)
ANSWER_SECONDS = 10.0
AT_ONCE = 8
LEEWAY_SECONDS = 60
ALGORITHMS = ["RS256", "ES256"]
MOST_CHARACTERS = 16 * 1024
_LEAST_RSA_BITS = 2_048
_URL = re.compile(r"https?://[!-~]{1,2000}")


class _Registry(jws.JWSRegistry):
    max_header_length = 8 * 1024  # some providers put their certificates there


# Others put headers of their own into tokens; what is not asked for here is not looked at.
_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


class LoginRefused(TaskForgeError):
    """This login cannot be followed; `status` is the answer's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Metadata(msgspec.Struct, frozen=True):
    """What a provider says of itself at /.well-known/openid-configuration."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Keys(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str


class _Refusal(msgspec.Struct, frozen=True):
    error: str


class IdentityProvider:
    def __init__(
        self, settings: Settings, fetch: Fetch, key: bytes, clock: Callable[[], datetime]
    ) -> None:
        self.attempts = Attempts(key, clock)
        self._settings = settings
        self._fetch = fetch
        self._clock = clock
        # nobody makes us flood the provider by flooding us
        self._places = asyncio.Semaphore(AT_ONCE)
        self._metadata: tuple[datetime, Metadata] | None = None
        self._keys: tuple[datetime, list[RSAKey | ECKey]] | None = None
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: int(clock().timestamp()),
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": settings.oidc_issuer},
            sub={"essential": True},
            aud={"essential": True, "value": settings.oidc_client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True},
        )

    async def address_for(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """Where the browser goes to log in."""
        endpoint = (await self.metadata()).authorization_endpoint
        asked = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email",
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"

    async def email_for(self, code: str, attempt: LoginAttempt, redirect_uri: str) -> str:
        """The address of whoever logged in there, which the provider says it has verified."""
        claims = await self._checked(
            await self._exchanged(code, attempt, redirect_uri), attempt.nonce
        )
        email = claims.get("email")
        if not isinstance(email, str) or not email:
            raise LoginRefused(
                403,
                "the provider does not tell your email address; ask whoever runs it to release it",
            )
        if claims.get("email_verified") is not True:
            raise LoginRefused(
                403,
                "the provider has not verified your email address; verify it there, then log "
                "in again",
            )
        return email

    # --- What the provider says of itself ---

    async def metadata(self) -> Metadata:
        if self._metadata is None or self._is_old(self._metadata[0]):
            issuer = self._settings.oidc_issuer
            found = await self._document(
                f"{issuer.rstrip('/')}/.well-known/openid-configuration", Metadata
            )
            places = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
            if found.issuer != issuer or not all(self._is_safe(place) for place in places):
                raise self._away(
                    f"its document names issuer {found.issuer!r} and {', '.join(map(repr, places))}"
                )
            self._metadata = (self._clock(), found)
        return self._metadata[1]

    async def keys(self, *, anew: bool = False) -> list[RSAKey | ECKey]:
        if self._keys is None or anew or self._is_old(self._keys[0]):
            found = await self._document((await self.metadata()).jwks_uri, _Keys)
            self._keys = (
                self._clock(),
                [key for one in found.keys if (key := _usable(one)) is not None],
            )
        return self._keys[1]

    def _is_old(self, at: datetime) -> bool:
        return not timedelta(0) <= self._clock() - at < KEPT

    def _is_safe(self, place: str) -> bool:
        """Only a provider on this machine, as in tests, may be talked to without TLS."""
        try:
            parts = urlsplit(place)
            local = is_loopback(parts.hostname or "") and self._settings.oidc_issuer.startswith(
                "http:"
            )
        except ValueError:
            return False
        return bool(
            _URL.fullmatch(place)
            and parts.hostname
            and not parts.fragment
            and (parts.scheme == "https" or local)
        )

    async def _document(self, url: str, kind: type[T]) -> T:
        status, body = await self._ask(url, None, {})
        if status != 200:
            raise self._away(f"{url} answers {status}")
        return self._read(url, body, kind)

    def _read(self, url: str, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._away(f"{url} answers what is not understood ({error})") from None

    async def _ask(
        self, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._places:
                return await self._fetch(url, form, headers)
        except (OSError, TimeoutError) as error:
            raise self._away(f"{url}: {str(error) or 'no answer in time'}") from None

    def _away(self, why: str) -> LoginRefused:
        """The log has the cause; whoever wants to log in can do nothing about it."""
        logger.warning("single sign-on: the provider cannot be used: %s", why)
        return LoginRefused(
            503, "the single sign-on provider does not answer as it should; try again in a moment"
        )

    # --- What it says of someone ---

    async def _exchanged(self, code: str, attempt: LoginAttempt, redirect_uri: str) -> str:
        """The id token for a code, asked for with the secret that only this server has."""
        metadata, settings = await self.metadata(), self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers: dict[str, str] = {}
        if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = (
                f"{quote_plus(settings.oidc_client_id)}:{quote_plus(settings.oidc_client_secret)}"
            )
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {
                "client_id": settings.oidc_client_id,
                "client_secret": settings.oidc_client_secret,
            }
        status, body = await self._ask(metadata.token_endpoint, form, headers)
        if 400 <= status < 500:
            logger.warning("single sign-on: the provider refuses a code: %s", _reason(body))
            raise LoginRefused(401, "the provider did not confirm this login; begin again")
        if status != 200:
            raise self._away(f"{metadata.token_endpoint} answers {status}")
        return self._read(metadata.token_endpoint, body, _Tokens).id_token

    async def _checked(self, token: str, nonce: str) -> dict[str, Any]:
        """The claims of an id token, if the provider signed it, for us, now, and for this
        attempt."""
        try:
            claims = self._signed(token, await self._key_for(token))
            self._check_claims(claims, nonce)
        except (
            JoseError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            OverflowError,
        ) as error:
            logger.warning(
                "single sign-on: an id token is refused: %s %s", type(error).__name__, error
            )
            raise LoginRefused(
                401, "the provider's answer cannot be trusted, so nobody was logged in; begin again"
            ) from None
        return claims

    def _check_claims(self, claims: dict[str, Any], nonce: str) -> None:
        self._claims.validate(claims)
        audience, party = claims["aud"], claims.get("azp")
        if (
            party is not None or (isinstance(audience, list) and len(audience) > 1)
        ) and party != self._settings.oidc_client_id:
            raise ValueError("azp is not this server")
        if claims["iat"] < self._clock().timestamp() - ATTEMPT_SECONDS - LEEWAY_SECONDS:
            raise ValueError("iat is before this login began")
        if not hmac.compare_digest(str(claims["nonce"]).encode("utf-8", "replace"), nonce.encode()):
            raise ValueError("nonce is not the one of this login")

    async def _key_for(self, token: str) -> RSAKey | ECKey:
        """By the id that the token names. One we do not know may be new: the provider is asked once
        more."""
        if len(token) > MOST_CHARACTERS:
            raise ValueError("the token is too long")
        header = jws.extract_compact(token.encode(), registry=_REGISTRY).headers()
        found = _named(await self.keys(), header.get("kid")) or _named(
            await self.keys(anew=True), header.get("kid")
        )
        if found is None:
            raise ValueError("signed with a key that the provider does not have")
        return found

    def _signed(self, token: str, key: RSAKey | ECKey) -> dict[str, Any]:
        return jwt.decode(token, key, algorithms=ALGORITHMS, registry=_REGISTRY).claims


def _named(keys: list[RSAKey | ECKey], kid: Any) -> RSAKey | ECKey | None:
    if kid is None:  # allowed where there is no choice
        return keys[0] if len(keys) == 1 else None
    return next((key for key in keys if key.kid == kid), None)


def _usable(one: dict[str, Any]) -> RSAKey | ECKey | None:
    """A public key for one of our algorithms; a provider may have others, for other uses."""
    if one.get("use", "sig") != "sig" or one.get("alg", ALGORITHMS[0]) not in ALGORITHMS:
        return None
    try:
        if one.get("kty") == "RSA":
            bits = int.from_bytes(base64.urlsafe_b64decode(f"{one['n']}==")).bit_length()
            if bits < _LEAST_RSA_BITS:
                return None
            return RSAKey.import_key(
                {name: one[name] for name in ("kty", "n", "e", "kid", "alg", "use") if name in one}
            )
        if one.get("kty") == "EC" and one.get("crv") == "P-256":
            return ECKey.import_key(
                {
                    name: one[name]
                    for name in ("kty", "crv", "x", "y", "kid", "alg", "use")
                    if name in one
                }
            )
    except (JoseError, ValueError, KeyError, TypeError):
        return None
    return None


def _reason(body: bytes) -> str:
    """The provider's word for it, if it is one."""
    try:
        error = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "for no reason that it gives"
    return error if re.fullmatch(r"[a-z_]{1,60}", error) else "for no known reason"
