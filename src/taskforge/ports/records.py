"""Everything small and rarely written: accounts, credentials, quotas, the audit log.

A record's statements are called by their names. Each is a file of `storage/sql`, written once for
both engines, or of the same name in both engines' own folders where their dialects differ.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")


class Step(msgspec.Struct, frozen=True):
    """One statement of a transaction. Where it touches nothing, what `otherwise` makes is raised,
    if given, and nothing is kept."""

    statement: str
    values: tuple[Any, ...] = ()
    otherwise: Callable[[], Exception] | None = None


class Records(Protocol):
    async def now(self) -> datetime: ...
    # Rows as values of `shape`, column by column in the order of its fields.
    async def look(self, shape: type[T], statement: str, *values: Any) -> list[T]: ...
    # All steps or none; the rows that each of them returned.
    async def write(self, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]: ...
