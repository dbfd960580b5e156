"""Marks of what has no version of its own: a change that is meant for what was read is refused once
it is something else."""

import hashlib
from typing import Any

import msgspec

from taskforge.domain.errors import Stale


def mark_of(*values: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()[:20]


def check_same(what: str, expected: str | int | None, present: str | int) -> None:
    """`expected`: the mark or the version that a change is meant for; None: whatever is there."""
    if expected is not None and expected != present:
        version = (
            f"is at version {present}, not {expected}"
            if isinstance(present, int)
            else "was changed since it was read"
        )
        raise Stale(f"{what} {version}; read it again")
