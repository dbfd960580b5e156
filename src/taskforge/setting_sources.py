"""Where settings come from: a file, the environment, flags; and which of them wins."""

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from taskforge.domain.errors import Invalid

FILE = "taskforge.toml"
PREFIX = "TASKFORGE_"


class Found(msgspec.Struct, frozen=True):
    """A setting's checked value, and where it came from: default, file, environment or flag."""

    value: Any
    source: str


_STRENGTH = ("default", "file", "environment", "flag")


def check_token_fits(url: Found, token: Found) -> None:
    """A token goes to no address that came from a weaker place: the settings file of a folder would
    send whoever works there, and their token, to a server of its author's."""
    if not token.value or not str(url.value).startswith(("http://", "https://")):
        return
    if _STRENGTH.index(url.source) < _STRENGTH.index(token.source):
        raise Invalid(
            "token",
            f"came from the {token.source}, and the address it would go to from {FILE}",
            f"name the server where the token is named (--url or {PREFIX}URL), or put the token "
            f"into {FILE}",
        )


@contextmanager
def told_as(source: str, name: str, file: Path | None) -> Iterator[None]:
    """An error about a setting says where to mend it."""
    try:
        yield
    except Invalid as error:
        within = error.field[len(name) :] if error.field.startswith(f"{name}.") else ""
        where = {
            "environment": f"{PREFIX}{name.upper()}{within}",
            "file": f"{name}{within} in {file or FILE}",
        }
        raise Invalid(where.get(source, error.field), error.problem, error.expected) from None


def read_file(file: Path | None) -> dict[str, Any]:
    path = Path(FILE) if file is None else file
    if not path.exists():
        if file is not None:
            raise Invalid(
                "file", f"{path} does not exist", "name an existing settings file, or none"
            )
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(
            str(path),
            f"is not valid TOML ({error})",
            "mend it, or check it with `taskforge config check`",
        ) from None


_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_.*)?")


def _is_foreign(name: str, value: str) -> bool:
    """Not of these settings: where our tests find PostgreSQL, and what Kubernetes tells pods about
    a service named `taskforge`."""
    is_link = _SERVICE_LINK.fullmatch(name) or (
        name == "PORT" and value.startswith(("tcp://", "udp://", "sctp://"))
    )
    return name == "POSTGRES_BIN" or bool(is_link)


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


def read_environment(
    texts: Collection[str], environment: Mapping[str, str] | None
) -> dict[str, Any]:
    """The variables that are settings, by their names; `texts`: those that are never numbers."""
    values = {}
    for variable, value in (os.environ if environment is None else environment).items():
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and not _is_foreign(name, value):
            values[name.lower()] = value if name.lower() in texts else _from_text(value)
    return values
