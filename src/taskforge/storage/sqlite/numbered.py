"""Python 3.12.0 to 3.12.3 take SQLite's numbered places (`?1`) for named ones, and warn of every
value given to one in a sequence. A warning is an error in many a test run. Given by their numbers
as names, the values mean the same, and nothing is said."""

import sqlite3
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Self

_WARNS = (3, 12, 0) <= sys.version_info[:3] < (3, 12, 4)


class NumberedCursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        return super().execute(sql, _name(parameters) if "?1" in sql else parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        return super().executemany(sql, map(_name, parameters) if "?1" in sql else parameters)


class NumberedConnection(sqlite3.Connection):
    def cursor(self, factory: Any = NumberedCursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self.cursor().execute(sql, parameters)  # type: ignore[no-any-return]

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self.cursor().executemany(sql, parameters)  # type: ignore[no-any-return]


def _name(values: Sequence[Any]) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(values, 1)}


CONNECTION: type[sqlite3.Connection] = NumberedConnection if _WARNS else sqlite3.Connection
