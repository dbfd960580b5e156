"""How rows become the values of a kind of record."""

import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from taskforge.domain.errors import NotFound

T = TypeVar("T")


@cache
def row_reader(
    shape: Any, convert: Callable[[Any], Callable[[Any], Any] | None]
) -> Callable[[Any], Any]:
    """Makes values of `shape` from rows. `convert` says how the engine's column becomes a field of
    some type, if not as it is."""
    hints = get_type_hints(shape)
    converters = [convert(_plain(hints[name])) for name in shape.__struct_fields__]

    def read(row: Any) -> Any:
        return shape(
            **{
                name: value if value is None or turn is None else turn(value)
                for name, turn, value in zip(shape.__struct_fields__, converters, row, strict=True)
            }
        )

    return read


def _plain(hint: Any) -> Any:
    """The type itself of an optional one, and the origin of a generic one."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [one for one in get_args(hint) if one is not type(None)]
    return get_origin(hint) or hint


def first(found: Sequence[T]) -> T | None:
    return found[0] if found else None


def first_or_not_found(found: Sequence[T], kind: str, name: str) -> T:
    if not found:
        raise NotFound(kind, name)
    return found[0]
