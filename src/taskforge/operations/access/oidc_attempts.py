"""Logins under way at the provider of single sign-on."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import datetime

import msgspec

ATTEMPT_SECONDS = 600


class LoginAttempt(msgspec.Struct, frozen=True):
    """A login under way: what ties the provider's answer to the browser that asked."""

    cookie: str
    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        return (
            base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest())
            .rstrip(b"=")
            .decode()
        )


class Attempts:
    """State, nonce and verifier all come of one seed and the server's key: the browser keeps the
    seed, and learns no verifier."""

    def __init__(self, key: bytes, clock: Callable[[], datetime]) -> None:
        self._key = key
        self._clock = clock

    def fresh(self) -> LoginAttempt:
        return self._from(
            f"{secrets.token_urlsafe(32)}.{int(self._clock().timestamp()) + ATTEMPT_SECONDS}"
        )

    def read(self, cookie: str) -> LoginAttempt | None:
        """The attempt that a cookie stands for, if this server's key signed it and it is not too
        old."""
        seed = cookie.rpartition(".")[0]
        found = self._from(seed)
        if not hmac.compare_digest(
            found.cookie.encode("utf-8", "replace"), cookie.encode("utf-8", "replace")
        ):
            return None
        return found if self._clock().timestamp() < int(seed.rpartition(".")[2]) else None

    def _from(self, seed: str) -> LoginAttempt:
        state, nonce, verifier = (
            self._mac(purpose, seed) for purpose in ("state", "nonce", "verifier")
        )
        return LoginAttempt(f"{seed}.{self._mac('cookie', seed)}", state, nonce, verifier)

    def _mac(self, purpose: str, seed: str) -> str:
        return hmac.new(
            self._key, f"oidc {purpose}:{seed}".encode("utf-8", "replace"), "sha256"
        ).hexdigest()
