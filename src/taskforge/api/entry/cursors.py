"""Cursors of listings that go by number."""

import base64
import binascii
from typing import Annotated

from litestar.params import QueryParameter

from taskforge.domain.errors import Invalid

MOST_RECORDS = 2**31 - 1  # what a column of numbers holds, where it is no wider
Cursor = Annotated[str | None, QueryParameter(description="Where the page before ended")]


def cursor_behind(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(8)).decode().rstrip("=")


def position_of(cursor: str | None, most: int = MOST_RECORDS) -> int:
    """The number behind which the page begins, at most so high; 0 for the first page."""
    if cursor is None:
        return 0
    try:
        raw = base64.urlsafe_b64decode(cursor + "==")
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != 8 or int.from_bytes(raw) > most:
        raise Invalid(
            "cursor",
            "is not one that a listing returned",
            "pass the cursor of the page before, unchanged",
        )
    return int.from_bytes(raw)
