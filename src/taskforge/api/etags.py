"""Versions of what is read, so that a change can be made to that version alone."""

import hashlib
import re
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Response
from litestar.params import HeaderParameter

from taskforge.api.problems import Stale
from taskforge.domain.errors import Invalid

T = TypeVar("T")
IfMatch = Annotated[
    str | None, HeaderParameter(name="If-Match", description="The ETag that you read; `*` or none: whatever is there")
]


def tagged(view: T, etag: str, status: int = 200) -> Response[T]:
    return Response(view, status_code=status, headers={"ETag": etag})


def tag_of(view: Any) -> str:
    """For what has no version of its own: a hash of what was shown."""
    return f'"{hashlib.sha256(msgspec.json.encode(view)).hexdigest()[:20]}"'


def check_match(if_match: str | None, view: Any) -> None:
    if if_match is not None and if_match.strip() != "*" and tag_of(view) not in if_match:
        raise Stale("it was changed since you read it; read it again")


def version_in(if_match: str | None) -> int | None:
    """The version that a queue's ETag stands for."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = re.fullmatch(r'\s*(?:W/)?"(\d{1,9})"\s*', if_match)
    if found is None:
        raise Invalid("If-Match", f"is {if_match[:40]!r}", 'use the ETag of the queue as it was read, such as "3"')
    return int(found[1])
