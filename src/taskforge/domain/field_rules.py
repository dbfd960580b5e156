"""Rules that stand beside the types of a struct's fields. What makes the struct checks by them, and
the API's document tells of them before."""

from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from taskforge.domain import rules


class Text(msgspec.Struct, frozen=True):
    most: int
    least: int = 1

    def check(self, field: str, value: Any) -> str:
        return rules.text(field, value, most=self.most, least=self.least)


class Whole(msgspec.Struct, frozen=True):
    least: int
    most: int

    def check(self, field: str, value: Any) -> int:
        return rules.integer(field, value, self.least, self.most)


class Number(msgspec.Struct, frozen=True):
    least: float
    most: float

    def check(self, field: str, value: Any) -> float:
        return rules.number(field, value, self.least, self.most)


class CheckedBy(msgspec.Struct, frozen=True):
    """A rule of its own: a function that takes the field's name and the value, and returns the
    value as it is kept."""

    check: Callable[[str, Any], Any]


Rule = Text | Whole | Number | CheckedBy


def rules_of(struct: type[msgspec.Struct]) -> dict[str, Rule]:
    """The rules of all fields that have one."""
    return {
        name: rule
        for name, hint in get_type_hints(struct, include_extras=True).items()
        for rule in getattr(hint, "__metadata__", ())
        if isinstance(rule, Rule)
    }
