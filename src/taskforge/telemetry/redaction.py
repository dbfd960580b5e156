"""Secrets in what is logged: keys and tokens of ours, passwords of addresses, what a header or a
setting calls a secret. They are blotted out before a line leaves the process."""

import re
from collections.abc import Mapping
from typing import Any

BLOT = "***"
# our keys and tokens by their prefix: the first characters, which the audit log names too, stay
_OURS = re.compile(r"\b(tf[kwsrpli]_[A-Za-z0-9_-]{4})[A-Za-z0-9_-]{8,}")
_OF_WEBHOOKS = re.compile(r"\bwhsec_[A-Za-z0-9+/=_-]{8,}")
_SIGNED = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_IN_ADDRESS = re.compile(r"(?<=://)([^\s:/@]*):[^\s@/]+@")
_IN_HEADER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9+/=._~-]{6,}", re.IGNORECASE)
_NAME = re.compile(r"password|passwd|secret|api_?key|audit_key|token|authorization", re.IGNORECASE)
_NAMED = re.compile(
    r"""((?:password|passwd|secret|api_?key|audit_key|token)["']?\s*[=:]\s*["']?)[^\s"',;&}]+""",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """The text without the secrets that can be told by their form or by what they are called."""
    text = _OURS.sub(rf"\1{BLOT}", text)
    text = _OF_WEBHOOKS.sub(f"whsec_{BLOT}", text)
    text = _SIGNED.sub(BLOT, text)
    text = _IN_ADDRESS.sub(rf"\1:{BLOT}@", text)
    text = _IN_HEADER.sub(rf"\1 {BLOT}", text)
    return _NAMED.sub(rf"\1{BLOT}", text)


def redact_value(name: str, value: Any) -> Any:
    """A value as JSON can carry it, without what is a secret by its name or its form."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if _NAME.search(name):
        return BLOT
    if isinstance(value, Mapping):
        return {str(key): redact_value(str(key), part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value("", part) for part in value]
    return redact(str(value))
