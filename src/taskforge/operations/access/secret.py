"""Secrets that callers hold: 256 random bits behind a prefix that names their kind. Stored as
SHA-256, which is enough for them."""

import hashlib
import secrets

API_KEY, WORKER_KEY, SESSION, REFRESH, RESET, LOGIN, INVITATION = (
    "tfk_",
    "tfw_",
    "tfs_",
    "tfr_",
    "tfp_",
    "tfl_",
    "tfi_",
)
VISIBLE = 12


def fresh(kind: str) -> str:
    return kind + secrets.token_urlsafe(32)


def hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def visible(secret: str) -> str:
    """What lists and logs may show."""
    return secret[:VISIBLE]
