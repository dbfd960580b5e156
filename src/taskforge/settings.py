"""Settings: one frozen tree, merged once from a file, the environment and flags. Units are in the names."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid

FILE = "taskforge.toml"
PREFIX = "TASKFORGE_"
# The project of a store that nobody divided: every store has it, and without accounts it is the only one.
PROJECT = 1


class Found(msgspec.Struct, frozen=True):
    """A setting's checked value, and where it came from: default, file, environment or flag."""

    value: Any
    source: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, with its default. `docs/reference/settings.md` is generated from the comments here."""

    # Where the jobs are: sqlite:///path/to/file.db or postgresql://user@host/database
    url: str = "sqlite:///taskforge.db"
    # The PostgreSQL schema that holds TaskForge's tables
    schema: str = "taskforge"
    # SQLite: fsync before an enqueue is acknowledged; false trades the last moments before a power loss for speed
    durable: bool = True
    # PostgreSQL behind a transaction-mode pooler: no LISTEN, no prepared statements, no session settings
    poll_only: bool = False
    # PostgreSQL connections of one process, at most
    pool_size: int = 6
    # How long a worker's silence is tolerated before its jobs are given to others
    lease_seconds: float = 15.0
    # How often a worker renews its lease and reports its health
    heartbeat_seconds: float = 5.0
    # How often an idle worker looks for jobs when no wake-up comes
    poll_seconds: float = 1.0
    # How long a stopping worker waits for running jobs before it hands them back
    grace_seconds: float = 25.0
    # How often due jobs are staged, and lost ones looked for
    upkeep_seconds: float = 0.5
    # How long finished jobs are kept where their queue does not say
    retention_days: float = 7.0

    @classmethod
    def load(
        cls, flags: Mapping[str, Any] | None = None, *, file: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Self:
        """Flags win over the environment, which wins over the file. An unknown name fails and says which was meant."""
        return cls(**{name: found.value for name, found in cls.traced(flags, file=file, environment=environment).items()})

    @classmethod
    def traced(
        cls, flags: Mapping[str, Any] | None = None, *, file: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> dict[str, Found]:
        """Every setting with where it came from, for `taskforge config check`."""
        layers = {
            "file": _from_file(file),
            "environment": {
                name.removeprefix(PREFIX).lower(): _from_text(value)
                for name, value in (os.environ if environment is None else environment).items()
                if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in _NOT_SETTINGS
            },
            "flag": {name: value for name, value in (flags or {}).items() if value is not None},
        }
        found = {field.name: Found(field.default, "default") for field in msgspec.structs.fields(cls)}
        for source, values in layers.items():
            for name, value in values.items():
                if name not in found:
                    raise rules.unknown("", name, cls.__struct_fields__)
                found[name] = Found(value, source)
        return {
            name: one if one.source == "default" else Found(_CHECKS[name](name, one.value), one.source)
            for name, one in found.items()
        }


def _from_file(file: Path | None) -> dict[str, Any]:
    path = Path(FILE) if file is None else file
    if not path.exists():
        if file is not None:
            raise Invalid("file", f"{path} does not exist", "name an existing settings file, or none")
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(str(path), f"is not valid TOML ({error})", "mend it, or check it with `taskforge config check`") from None


_NOT_SETTINGS = {"POSTGRES_BIN"}


def _from_text(value: str) -> Any:
    """Environment variables are text; what reads as a number or a truth value is one."""
    lowered = value.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _seconds(least: float, most: float) -> Any:
    return lambda field, value: rules.number(field, value, least, most)


_CHECKS: dict[str, Any] = {
    "url": lambda field, value: rules.text(field, value, most=2_000),
    "schema": lambda field, value: rules.text(field, value, most=63),
    "durable": rules.flag,
    "poll_only": rules.flag,
    "pool_size": lambda field, value: rules.integer(field, value, 2, 1_000),
    "lease_seconds": _seconds(0.5, 3_600),
    "heartbeat_seconds": _seconds(0.1, 600),
    "poll_seconds": _seconds(0.01, 600),
    "grace_seconds": _seconds(0, 86_400),
    "upkeep_seconds": _seconds(0.01, 60),
    "retention_days": _seconds(0.01, 3_650),
}
