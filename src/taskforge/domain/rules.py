"""The checks that every entity shares. Each raises `Invalid` naming the field, the value's problem
and what would be right."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from taskforge.domain import readable_json
from taskforge.domain.errors import Invalid, nearest
from taskforge.domain.visible import has_steering

# In any time zone, and with some to spare for sums, these are years that Python, both stores and
# ids can hold.
FIRST_YEAR, LAST_YEAR = 1970, 9_000
# ten years: beyond it a delay is a mistake, and dates stay far from overflow
MAX_SECONDS = 10 * 366 * 86_400.0


def text(field: str, value: Any, *, most: int, least: int = 1) -> str:
    expected = f"use {least} to {most} characters"
    if not isinstance(value, str):
        raise Invalid(field, f"is {_kind(value)}, not text", expected)
    if not least <= len(value) <= most:
        raise Invalid(field, f"has {len(value):,} characters", expected)
    if has_steering(value):
        raise Invalid(field, "contains a control character", "use printable characters only")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Invalid(field, "contains half of a surrogate pair", "use valid Unicode text")
    return value


def storable(text: str) -> str:
    """Text that came from a handler, whatever is in it: NUL cannot be stored as text, nor half of a
    surrogate pair, which Python puts in place of bytes in file names that are not UTF-8."""
    text = text.replace("\x00", "\N{SYMBOL FOR NULL}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def integer(field: str, value: Any, least: int, most: int) -> int:
    expected = f"use a whole number from {least:,} to {most:,}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(field, f"is {_kind(value)}, not a whole number", expected)
    if not least <= value <= most:
        raise Invalid(field, f"is {value:,}", expected)
    return value


def number(field: str, value: Any, least: float, most: float) -> float:
    expected = f"use a number from {least:,.12g} to {most:,.12g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(field, f"is {_kind(value)}, not a number", expected)
    if not math.isfinite(value) or not least <= value <= most:
        raise Invalid(field, f"is {value:,}", expected)
    return float(value)


def flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid(field, f"is {_kind(value)}, not true or false", "use true or false")
    return value


def choice(field: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise Invalid(field, f"is {value!r}", "use one of " + ", ".join(choices))
    return str(value)


def moment(field: str, value: Any) -> datetime | float:
    """A point in time: a zoned datetime, or seconds (or a timedelta) from now by the store's
    clock."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise Invalid(
                field,
                "is a datetime without a time zone",
                "use a zoned one such as datetime.now(UTC)",
            )
        if not FIRST_YEAR <= value.year <= LAST_YEAR:
            raise Invalid(
                field,
                f"is in the year {value.year}",
                f"use a time from {FIRST_YEAR} to {LAST_YEAR}",
            )
        return value
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(
            field, f"is {_kind(value)}", "use a zoned datetime or a number of seconds from now"
        )
    if not math.isfinite(value) or value > MAX_SECONDS:
        raise Invalid(field, f"is {value} seconds", "use at most ten years")
    if value < 0:
        raise Invalid(field, f"is negative ({value:g} seconds)", "use 0 or more seconds from now")
    return float(value)


def unknown(field: str, name: str, known: tuple[str, ...]) -> Invalid:
    near = nearest(name, known)
    hint = f"did you mean {near!r}?" if near else "known ones are " + ", ".join(known)
    return Invalid(f"{field}.{name}" if field else name, "is not a known setting", hint)


_encode = msgspec.json.Encoder().encode


def json_bytes(field: str, value: Any, *, most: int) -> bytes:
    """Encode a JSON value once, refusing what JSON cannot carry instead of changing it silently."""
    try:
        encoded = _encode(value)
        # msgspec writes NaN and infinities as null; only a document that contains a null can hide
        # one.
        if b"null" in encoded:
            _refuse_non_finite(field, value)
        encoded.decode("utf-8")
    except RecursionError:
        raise Invalid(field, "is nested too deeply", "use a flatter structure") from None
    except UnicodeError:
        raise Invalid(
            field, "contains half of a surrogate pair", "use valid Unicode text"
        ) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(
            field, f"cannot be written as JSON ({error})", "use plain values, lists and objects"
        ) from None
    if len(encoded) > most:
        raise Invalid(field, f"takes {len(encoded):,} bytes as JSON", f"use at most {most:,} bytes")
    return encoded


_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def without_nul(field: str, document: bytes) -> bytes:
    """JSON whose parts are compared in the store: it may carry NUL as an escape, but no text there
    can hold it."""
    if _NUL.search(document) is not None:
        raise Invalid(field, "contains NUL", "use text without it")
    return document


def json_document(field: str, document: bytes, *, most: int, is_examined: bool = False) -> bytes:
    """JSON that a decoder passed over as `msgspec.Raw` and that is kept as it came: checked here so
    that everyone who reads it later can, unless that was done piece by piece (`examining`)."""
    if len(document) > most:
        raise Invalid(
            field, f"takes {len(document):,} bytes as JSON", f"use at most {most:,} bytes"
        )
    if not is_examined:
        with readable(field):
            readable_json.check_scanned(document)
    return document


def examining(field: str, document: msgspec.Raw) -> Iterator[None]:
    """The same check in pieces of 64 KiB, for who has others to serve in between."""
    with readable(field):
        yield from readable_json.examine(memoryview(document))


@contextmanager
def readable(field: str) -> Iterator[None]:
    """What a decoder says to a document, as this field's mistake."""
    try:
        yield
    except RecursionError:
        raise Invalid(field, "is nested too deeply", "use a flatter structure") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Invalid(
            field, f"is not JSON that everyone can read ({error})", "use valid JSON in UTF-8"
        ) from None


def _refuse_non_finite(path: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(path, f"is {value}, which JSON cannot carry", "use a finite number or null")
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_non_finite(f"{path}.{key}", inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for index, inner in enumerate(value):
            _refuse_non_finite(f"{path}[{index}]", inner)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _refuse_non_finite(f"{path}.{name}", getattr(value, name))
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            _refuse_non_finite(f"{path}.{name}", getattr(value, name))


def _kind(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
