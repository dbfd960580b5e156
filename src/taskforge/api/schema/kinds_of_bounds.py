"""The few kinds of bounds that the API's document states."""

from typing import Any

Bound = dict[str, Any]


def text(most: int, least: int = 1) -> Bound:
    return {"minLength": least, "maxLength": most, "pattern": r"^[^\u0000-\u001f\u007f]*$"}


def number(least: float, most: float) -> Bound:
    return {"minimum": least, "maximum": most}


def one_of(values: Any) -> Bound:
    return {"enum": [str(value) for value in values]}
