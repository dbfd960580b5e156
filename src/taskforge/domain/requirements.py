"""What a job may require of a worker, such as {"gpu": true, "memory_gb": {">=": 16}}, and whether a
worker meets it."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from taskforge.domain.errors import Invalid

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "in": lambda have, wanted: have in wanted,
}
MAX_REQUIREMENTS = 20


def canonical(requires: Mapping[str, Any] | None) -> str:
    """One text for equal requirements, so that they share a lane; empty when nothing is
    required."""
    if not requires:
        return ""
    if not isinstance(requires, Mapping):
        raise Invalid(
            "requires", f"is a {type(requires).__name__}", 'use an object such as {"gpu": true}'
        )
    if len(requires) > MAX_REQUIREMENTS:
        raise Invalid("requires", f"has {len(requires)} entries", f"use at most {MAX_REQUIREMENTS}")
    for name, wanted in requires.items():
        field = f"requires.{name}"
        if not 1 <= len(str(name)) <= 100:
            raise Invalid(
                "requires", f"has the capability name {name!r}", "use 1 to 100 characters"
            )
        conditions = wanted.items() if isinstance(wanted, Mapping) else [("==", wanted)]
        for sign, value in conditions:
            if sign not in _COMPARE:
                raise Invalid(
                    field, f"uses the comparison {sign!r}", "use one of " + " ".join(_COMPARE)
                )
            scalar = isinstance(value, str | int | float | bool)
            if sign == "in" and not (
                isinstance(value, list | tuple)
                and all(isinstance(one, str | int | float) for one in value)
            ):
                raise Invalid(
                    field,
                    "compares with 'in' to something else than a list",
                    "use a list of values",
                )
            if sign != "in" and not scalar:
                raise Invalid(
                    field, f"is {value!r}", "use a text, number, true or false, or a comparison"
                )
    encoded = msgspec.json.encode(requires, order="sorted").decode()
    if len(encoded) > 1_000:
        raise Invalid("requires", f"takes {len(encoded):,} characters", "use at most 1,000")
    return encoded


def meets(requires: str, capabilities: Mapping[str, Any]) -> bool:
    """Whether a worker with these capabilities may run a job with these (canonical)
    requirements."""
    if not requires:
        return True
    for name, wanted in msgspec.json.decode(requires).items():
        have = capabilities.get(name)
        conditions = wanted.items() if isinstance(wanted, dict) else [("==", wanted)]
        for sign, value in conditions:
            # what came in through SQL was not checked: nobody can meet what nobody understands
            compare = _COMPARE.get(sign)
            try:
                if have is None or compare is None or not compare(have, value):
                    return False
            except TypeError:
                return False
    return True
