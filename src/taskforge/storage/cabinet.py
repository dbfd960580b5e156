"""Accounts are small and rarely written: both engines keep them through one portable dialect, so that their rules exist once.

Statements name the schema `taskforge` and their values $1, $2 …; both engines understand everything else in them. Rows come back as
values of a given type, column by column in the order of its fields.
"""

import types
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from taskforge.domain.audit import Note

T = TypeVar("T")


class Step(msgspec.Struct, frozen=True):
    """One statement of a transaction. Where it touches nothing, what `otherwise` makes is raised, if given, and nothing is kept."""

    statement: str
    values: tuple[Any, ...] = ()
    otherwise: Callable[[], Exception] | None = None


class Cabinet(Protocol):
    # What lies below it can only be added to behind; a condition on `xact`.
    horizon: str

    async def now(self) -> datetime: ...
    async def look(self, shape: type[T], statement: str, *values: Any) -> list[T]: ...
    async def write(self, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]: ...


_NOTE = """
insert into taskforge.audit (at, organization, project, actor, action, target, before, after, origin, request)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""


def audited(note: Note, now: datetime, target: str, *, project: int | None = None, before: Any = None, after: Any = None) -> Step:
    """The step that leaves the audit entry of a change, in the change's own transaction."""
    values = (note.organization, project, note.actor, note.action, target, _json(before), _json(after), note.origin, note.request)
    return Step(_NOTE, (now, *values))


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


@cache
def reader(shape: Any, convert: Callable[[Any], Callable[[Any], Any] | None]) -> Callable[[Any], Any]:
    """Makes values of `shape` from rows. `convert` says how the engine's column becomes a field of some type, if not as it is."""
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
