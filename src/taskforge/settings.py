"""Settings: one frozen tree, merged once from a file, the environment and flags. Units are in the names."""

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid

FILE = "taskforge.toml"
PREFIX = "TASKFORGE_"


class Found(msgspec.Struct, frozen=True):
    """A setting's checked value, and where it came from: default, file, environment or flag."""

    value: Any
    source: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, with its default. `docs/reference/settings.md` is generated from the comments here."""

    # Where the jobs are: sqlite:///path/to/file.db, postgresql://user@host/database, or a server such as https://jobs.example.com
    url: str = "sqlite:///taskforge.db"
    # The API key or worker key for a server
    token: str = ""
    # The project to work in: one of the first organization, or organization/project. Over HTTP the key decides
    project: str = "default"
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
    # After how much silence a worker is unhealthy: between heartbeat_seconds and lease_seconds; 0: two thirds of each one's lease
    worker_heartbeat_timeout_seconds: float = 0.0
    # How often an idle worker looks for jobs when no wake-up comes
    poll_seconds: float = 1.0
    # How long a stopping worker waits for running jobs before it hands them back
    grace_seconds: float = 25.0
    # How often due jobs are staged, and lost ones looked for
    upkeep_seconds: float = 0.5
    # Where `taskforge server` listens: 127.0.0.1 keeps it to this machine
    host: str = "127.0.0.1"
    # The port of `taskforge server`
    port: int = 8080
    # Connections that the server holds at once; streams of events and waiting claims of one credential or organization get a part
    max_connections: int = 2_000
    # The address that users reach the server by, such as https://jobs.example.com; it makes cookies secure and links right
    public_url: str = ""
    # The key that signs tokens, at least 32 characters; without one the servers of a store share one that is kept in it
    secret: str = ""
    # Single sign-on with OpenID Connect: the provider, such as https://accounts.example.com, as it names itself; empty is off
    oidc_issuer: str = ""
    # What the provider knows this server as
    oidc_client_id: str = ""
    # The secret that the provider gave out with it
    oidc_client_secret: str = ""
    # How long the audit log is kept
    audit_days: float = 365.0
    # How long finished jobs are kept where their queue does not say
    retention_days: float = 7.0

    @property
    def silence_seconds(self) -> float | None:
        """After which a worker is unhealthy; None: after two thirds of its lease."""
        seconds = self.worker_heartbeat_timeout_seconds
        if seconds >= self.lease_seconds:
            problem = f"is {seconds:g}, and lease_seconds is {self.lease_seconds:g}"
            raise Invalid("worker_heartbeat_timeout_seconds", problem, "make it shorter than the lease, or 0 for two thirds of it")
        rhythm = self.rhythm_of(self.lease_seconds)
        if 0 < seconds <= rhythm:
            problem = f"is {seconds:g}, and workers are heard of every {rhythm:g} s: they would be unhealthy between two heartbeats"
            raise Invalid("worker_heartbeat_timeout_seconds", problem, "make it longer, shorten heartbeat_seconds, or use 0")
        return seconds or None

    def rhythm_of(self, lease_seconds: float) -> float:
        """How often a worker with this lease is to be heard of: two heartbeats may get lost."""
        return min(self.heartbeat_seconds, lease_seconds / 3)

    @property
    def is_secure(self) -> bool:
        """Whether users come over TLS, so that cookies may be kept to it."""
        return self.public_url.startswith("https://")

    def has_single_sign_on(self) -> bool:
        """Whether it is set. A part of it alone is an error, for it would be off, or fail at the first login."""
        parts = ("oidc_issuer", "oidc_client_id", "oidc_client_secret")
        missing = [name for name in parts if not getattr(self, name)]
        if len(missing) == len(parts):
            return False
        if missing:
            raise Invalid(missing[0], "is empty", f"set {', '.join(parts)}, or none of them")
        if not self.public_url and not is_loopback(self.host):
            expected = "set it to the address that users reach the server by: the provider sends them back there"
            raise Invalid("public_url", "is empty, and single sign-on needs it", expected)
        return True

    def changed(self, **values: Any) -> Self:
        """With these values instead, checked like those that are loaded; None leaves one as it is."""
        return msgspec.structs.replace(self, **{name: _CHECKS[name](name, one) for name, one in values.items() if one is not None})

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
        texts = {field.name for field in msgspec.structs.fields(cls) if field.type is str}  # an id of digits is not a number
        layers = {
            "file": _from_file(file),
            "environment": {
                name.removeprefix(PREFIX).lower(): value if name.removeprefix(PREFIX).lower() in texts else _from_text(value)
                for name, value in (os.environ if environment is None else environment).items()
                if name.startswith(PREFIX) and not _is_foreign(name.removeprefix(PREFIX), value)
            },
            "flag": {name: value for name, value in (flags or {}).items() if value is not None},
        }
        found = {field.name: Found(field.default, "default") for field in msgspec.structs.fields(cls)}
        for source, values in layers.items():
            for name, value in values.items():
                with _told_as(source, name, file):
                    if name not in found:
                        raise rules.unknown("", name, cls.__struct_fields__)
                found[name] = Found(value, source)
        for name, one in found.items():
            if one.source != "default":
                with _told_as(one.source, name, file):
                    found[name] = Found(_CHECKS[name](name, one.value), one.source)
        return found


@contextmanager
def _told_as(source: str, name: str, file: Path | None) -> Iterator[None]:
    """An error about a setting says where to mend it."""
    try:
        yield
    except Invalid as error:
        where = {"environment": f"{PREFIX}{name.upper()}", "file": f"{name} in {file or FILE}"}
        raise Invalid(where.get(source, error.field), error.problem, error.expected) from None


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


_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_.*)?")


def _is_foreign(name: str, value: str) -> bool:
    """Not of these settings: where our tests find PostgreSQL, and what Kubernetes tells pods about a service named `taskforge`."""
    is_link = _SERVICE_LINK.fullmatch(name) or (name == "PORT" and value.startswith(("tcp://", "udp://", "sctp://")))
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


def _url(field: str, value: Any) -> str:
    """What no driver could read is told here. Parts of it are not repeated: they may be of a password."""
    text = rules.text(field, value, most=2_000)
    if _cuts_a_password(text):
        like = _like(text).replace("://", "://user:password@").replace("password@user@", "password@")
        expected = f"write it like {like}, with %2F for /, %3F for ?, %23 for # and %40 for @ in a password"
        raise Invalid(field, "its password, or another part, holds / ? # or @ as it is", expected)
    try:
        for host in urlsplit(text).netloc.rpartition("@")[2].split(","):  # PostgreSQL takes several
            _ = urlsplit(f"//{host}").port
    except ValueError as error:
        if "port" in str(error).lower():
            raise Invalid(field, "its port is not a number from 0 to 65535", f"write it like {_like(text)}") from None
        expected = f"write it like {_like(text)}; an IPv6 address stands in [ ], and a password has %5B and %5D for them"
        raise Invalid(field, "it cannot be read", expected) from None
    check_sqlite_url(field, text)
    return text


def _cuts_a_password(url: str) -> bool:
    """Whether a URL of a server has an @ behind its host: then a password was cut off at its first / ? or #, and the rest of it
    would be shown as a path. Or two: drivers differ in which of them ends the password."""
    if url.lower().startswith("sqlite:"):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    rest = parts.path + parts.fragment + ("" if parts.path else parts.query)
    return "@" in rest or parts.netloc.count("@") > 1


def check_sqlite_url(field: str, url: str) -> None:
    """In a URL # and ? end the path: a file of another name than the one meant would be made. Behind ? the project may stand."""
    if not url.lower().startswith("sqlite:"):
        return
    path, mark, query = url.partition("?")
    meant = "if the file has it in its name, write "
    if "#" in url:
        raise Invalid(field, "has a # in it", f"{meant}{url.replace('#', '%23')}")
    if mark and not all(part.startswith("project=") for part in query.split("&")):
        raise Invalid(field, "has a ? in it", f"{meant}{path}%3F{query}")


def _like(url: str) -> str:
    if url.startswith("sqlite:"):
        return "sqlite:///path/to/file.db"
    return "postgresql://user@host:5432/database" if url.startswith("postgres") else "https://server:8080"


def _secret(field: str, value: Any) -> str:
    text = rules.text(field, value, least=0, most=1_000)
    if text and (len(text) < 32 or len(set(text)) < 10):
        raise Invalid(field, "is too easy to guess", "use at least 32 random characters, or none")
    return text


def _public_url(field: str, value: Any) -> str:
    text = rules.text(field, value, least=0, most=500)
    if text and not text.startswith(("https://", "http://")):
        raise Invalid(field, f"is {text!r}", "use an address such as https://jobs.example.com")
    return text.rstrip("/")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _issuer(field: str, value: Any) -> str:
    """As it is written: a provider's name for itself may end with a slash, and is compared as a whole."""
    text = rules.text(field, value, least=0, most=500)
    if not text:
        return text
    try:
        parts = urlsplit(text)
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        raise Invalid(field, f"is {text!r}", "use an address such as https://accounts.example.com") from None
    if not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc or not (parts.scheme == "https" or local):
        raise Invalid(field, f"is {text!r}", "use an https address such as https://accounts.example.com")
    return text


def _seconds(least: float, most: float) -> Any:
    return lambda field, value: rules.number(field, value, least, most)


_CHECKS: dict[str, Any] = {
    "url": _url,
    "token": lambda field, value: rules.text(field, value, least=0, most=4_000),
    "project": lambda field, value: rules.text(field, value, most=201),
    "schema": lambda field, value: rules.text(field, value, most=63),
    "durable": rules.flag,
    "poll_only": rules.flag,
    "pool_size": lambda field, value: rules.integer(field, value, 2, 1_000),
    "lease_seconds": _seconds(0.5, 3_600),
    "heartbeat_seconds": _seconds(0.1, 600),
    "worker_heartbeat_timeout_seconds": _seconds(0, 3_600),
    "poll_seconds": _seconds(0.01, 600),
    "grace_seconds": _seconds(0, 86_400),
    "upkeep_seconds": _seconds(0.01, 60),
    "host": lambda field, value: rules.text(field, value, most=255),
    "port": lambda field, value: rules.integer(field, value, 0, 65_535),
    "max_connections": lambda field, value: rules.integer(field, value, 40, 1_000_000),
    "public_url": _public_url,
    "secret": _secret,
    "oidc_issuer": _issuer,
    "oidc_client_id": lambda field, value: rules.text(field, value, least=0, most=500),
    "oidc_client_secret": lambda field, value: rules.text(field, value, least=0, most=2_000),
    "audit_days": _seconds(1, 36_500),
    "retention_days": _seconds(0.01, 3_650),
}
