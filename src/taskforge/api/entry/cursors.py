"""Cursors of listings that go by number."""

import base64
import binascii
from typing import Annotated

from litestar.params import QueryParameter

from taskforge.domain.errors import Invalid

Cursor = Annotated[str | None, QueryParameter(description="Where the page before ended")]


def cursor_behind(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(8)).decode().rstrip("=")


def position_of(cursor: str | None) -> int:
    """The number behind which the page begins; 0 for the first page."""
    if cursor is None:
        return 0
    try:
        raw = base64.urlsafe_b64decode(cursor + "==")
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != 8 or raw[0] > 0x7F:
        raise Invalid(
            "cursor",
            "is not one that a listing returned",
            "pass the cursor of the page before, unchanged",
        )
    return int.from_bytes(raw)
