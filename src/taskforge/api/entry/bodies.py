"""From a body's bytes to what a route declares: one rule for routes of the framework and for those
that the front answers.

A field that is not known, a value of another type (`"3"` for 3, `"false"` for false) and bytes that
are no JSON are 422, with a pointer to the field."""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.handlers import BaseRouteHandler

from taskforge.domain import rules
from taskforge.domain.errors import Invalid

Given = TypeVar("Given")
Made = TypeVar("Made")
BODY = "body"  # the field that stands for all of it
# What is larger is not looked through at once: others would wait.
LARGE_BYTES = 256 * 1024
_PATH = re.compile(r" - at `(?:key in `)?\$(.*?)`+$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_DOCUMENT = "see the API document"


def decoded(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except RecursionError:
        raise Invalid(BODY, "is nested too deeply", "use a flatter structure") from None
    except msgspec.ValidationError as error:
        raise _refusal(str(error)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Invalid(BODY, f"is not JSON ({error})", "send valid JSON in UTF-8") from None


def within(place: str, error: Invalid) -> Invalid:
    """The same mistake, in a part of the body: `lines[3]`."""
    if error.field == BODY:
        return Invalid(place, error.problem, error.expected)
    joint = "" if error.field.startswith("[") else "."
    return Invalid(f"{place}{joint}{error.field}", error.problem, error.expected)


def each(place: str, given: Iterable[Given], read: Callable[[Given], Made]) -> list[Made]:
    """What is made of every item; a mistake names the item's index."""
    made = []
    for index, item in enumerate(given):
        try:
            made.append(read(item))
        except Invalid as error:
            raise within(f"{place}[{index}]", error) from None
    return made


async def each_in_turn(
    place: str, given: Sequence[Given], read: Callable[[Given], Made]
) -> list[Made]:
    """The same for items that may be large: others have their turn between them."""
    made = []
    for index, item in enumerate(given):
        try:
            made.append(read(item))
        except Invalid as error:
            raise within(f"{place}[{index}]", error) from None
        await asyncio.sleep(0)
    return made


async def examine_large(field: str, document: msgspec.Raw) -> bool:
    """Whether the document is so large that it was examined here, piece by piece: by others' turns
    in between, and not in a thread, which would keep the event loop from the interpreter for 5 ms
    at a time."""
    if memoryview(document).nbytes <= LARGE_BYTES:
        return False
    for _ in rules.examining(field, document):
        await asyncio.sleep(0)
    return True


class StrictRequest(Request[Any, Any, Any]):
    """Decodes a body as its route declares it. The framework would decode into any objects first,
    which takes a dozen times the memory, and then convert them, which takes "3" for 3."""

    async def json(self) -> Any:
        body = await self.body()
        # the framework would keep it until the request has ended
        self._body = self._connection_state.body = b""
        return decoded(_decoder(self.route_handler), body)


@cache
def _decoder(handler: BaseRouteHandler) -> Any:
    return msgspec.json.Decoder(handler.parsed_fn_signature.parameters["data"].annotation)


def _refusal(told: str) -> Invalid:
    """What a decoder says, as the field at fault and what is wrong with it."""
    at = _PATH.search(told)
    path = at[1].replace("[...]", "").lstrip(".") if at else ""
    problem = told[: at.start()] if at else told
    if unknown := _UNKNOWN.fullmatch(problem):
        return Invalid(_joined(path, unknown[1][:100]), "is not a known field", _DOCUMENT)
    if missing := _MISSING.fullmatch(problem):
        return Invalid(_joined(path, missing[1]), "is missing", _DOCUMENT)
    return Invalid(path or BODY, problem[:1].lower() + problem[1:], _DOCUMENT)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
