"""Versions of what is read, so that a change can be made to that version alone. The store compares
them, as part of the change."""

import re
from typing import Annotated, TypeVar

from litestar import Response
from litestar.params import HeaderParameter

from taskforge.domain.errors import Invalid, Stale

T = TypeVar("T")
_TAGS = r'\s*(?:W/)?"[^"]*"\s*(?:,\s*(?:W/)?"[^"]*"\s*)*'
IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match", description="The ETag that you read; `*` or none: whatever is there"
    ),
]


def tagged(view: T, version: str | int, status: int = 200) -> Response[T]:
    return Response(view, status_code=status, headers={"ETag": f'"{version}"'})


def mark_in(if_match: str | None) -> str | None:
    """The mark that an ETag stands for."""
    return _tag(if_match, "[0-9a-f]{1,64}")


def version_in(if_match: str | None) -> int | None:
    """The version that an ETag stands for."""
    tag = _tag(if_match, r"\d{1,9}")
    return None if tag is None else int(tag)


def _tag(if_match: str | None, form: str) -> str | None:
    if if_match is None or if_match.strip() == "*":
        return None
    if re.fullmatch(_TAGS, if_match) is None:
        raise Invalid(
            "If-Match", f"is {if_match[:40]!r}", "use the ETag as it was read, with its quotes"
        )
    ours: set[str] = {
        tag for tag in re.findall('"([^"]*)"', if_match) if re.fullmatch(form, tag, re.ASCII)
    }
    if not ours:
        raise Stale("If-Match names no version that there ever was; read it again")
    if len(ours) > 1:
        raise Invalid("If-Match", "names several versions", "use the ETag of the one that was read")
    return ours.pop()
