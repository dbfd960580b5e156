"""Reads the body of a request, within bounds of time and size."""

import asyncio
import codecs
from typing import Any

from litestar.types import Receive

from taskforge.api.entry.bodies import BODY
from taskforge.api.entry.problems import TooLarge, TooSlow
from taskforge.api.entry.room import BodyPlace
from taskforge.domain.errors import Invalid

MAX_BODY_BYTES = 8 * 1024 * 1024
BODY_SECONDS = 60.0


class PatientBody:
    """Receives a body, but not forever: whoever sends it drop by drop would hold a place that
    others need."""

    def __init__(self, receive: Receive, place: BodyPlace, *, checked: bool) -> None:
        """`checked`: what comes must be UTF-8, which the framework's own decoder takes for
        granted."""
        self._receive = receive
        self.place = place
        self._decoder = codecs.getincrementaldecoder("utf-8")() if checked else None
        self._until: float | None = None
        self._whole = False

    async def __call__(self) -> Any:
        if self._whole:
            return await self._receive()  # it says when the caller left, however long that takes
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._until):
                message: Any = await self._receive()
        except TimeoutError:
            raise TooSlow(
                f"the body did not come within {BODY_SECONDS:.0f} s; send it faster, or less of it"
            ) from None
        if message["type"] == "http.disconnect":
            raise Invalid(BODY, "ended before its time", "send all of it")
        self._whole = not message.get("more_body", False)
        self.place.add(len(message.get("body", b"")))
        if self._decoder is not None:
            try:
                self._decoder.decode(message.get("body", b""), self._whole)
            except UnicodeError:
                raise Invalid(BODY, "is not UTF-8", "send valid JSON in UTF-8") from None
        if self._whole:
            await self.place.begin()
        return message


async def read_body(receive: Receive) -> bytes:
    message: Any = await receive()
    if not message.get("more_body"):
        whole: bytes = message.get("body", b"")
        if len(whole) <= MAX_BODY_BYTES:
            return whole
    parts, size = [message.get("body", b"")], len(message.get("body", b""))
    while message.get("more_body") and size <= MAX_BODY_BYTES:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if size > MAX_BODY_BYTES:
        raise too_large()
    return b"".join(parts)


def is_too_large(size: int) -> bool:
    return size > MAX_BODY_BYTES


def too_large() -> TooLarge:
    return TooLarge(f"the body is larger than {MAX_BODY_BYTES // 2**20} MiB; send less at a time")
