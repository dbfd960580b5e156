"""Signatures of what the platform sends, as Standard Webhooks describes them: whoever has the
secret can tell that it came from here, and when."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from taskforge.domain.errors import Invalid

PREFIX = "whsec_"
_BYTES = 32
_LEAST, _MOST = 24, 64  # of a secret, in bytes, as Standard Webhooks has it
TOLERANCE_SECONDS = 300.0


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def read_secret(field: str, secret: str) -> bytes:
    """The key that a written secret stands for."""
    expected = f"use {PREFIX} and {_LEAST} to {_MOST} random bytes in base64"
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(field, "cannot be read", expected) from None
    if not secret.startswith(PREFIX) or not _LEAST <= len(key) <= _MOST:
        raise Invalid(field, "is no secret of a webhook", expected)
    return key


def sign(keys: Sequence[bytes], identifier: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers that say whose a body is, one signature for each key: `webhook-id`,
    `webhook-timestamp`, `webhook-signature`."""
    seconds = str(int(at.timestamp()))
    content = f"{identifier}.{seconds}.".encode() + body
    return {
        "webhook-id": identifier,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{_digest(key, content)}" for key in keys),
    }


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> bool:
    """Whether a body was signed with this secret, and not long ago. Names of headers in any
    case."""
    key = read_secret("secret", secret)
    given = {name.lower(): value for name, value in headers.items()}
    try:
        identifier = given["webhook-id"]
        seconds = int(given["webhook-timestamp"])
        signatures = given["webhook-signature"].split(" ")
    except (KeyError, ValueError):
        return False
    if abs(now.timestamp() - seconds) > tolerance_seconds:
        return False
    expected = _digest(key, f"{identifier}.{given['webhook-timestamp']}.".encode() + body)
    return any(
        hmac.compare_digest(f"v1,{expected}".encode(), signature.encode())
        for signature in signatures
    )


def _digest(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
