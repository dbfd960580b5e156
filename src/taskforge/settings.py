"""Settings: one frozen tree, merged once from a file, the environment and flags. Units are in the
names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from taskforge.domain import rules
from taskforge.domain.addresses import Network, parse_networks
from taskforge.domain.errors import Invalid
from taskforge.domain.scaling_provider import Declaration, read_declarations
from taskforge.domain.urls import (
    check_issuer,
    check_public_url,
    check_store_url,
    is_loopback,
)
from taskforge.setting_sources import (
    Found,
    check_token_fits,
    read_environment,
    read_file,
    told_as,
)

LOG_FORMATS = ("text", "json")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, with its default. `docs/reference/settings.md` is generated from the comments
    here."""

    # Where the jobs are: sqlite:///path/to/file.db, postgresql://user@host/database, or a server
    # such as https://jobs.example.com
    url: str = "sqlite:///taskforge.db"
    # The API key or worker key for a server
    token: str = ""
    # The project to work in: one of the first organization, or organization/project. Over HTTP the
    # key decides
    project: str = "default"
    # The PostgreSQL schema that holds TaskForge's tables
    schema: str = "taskforge"
    # SQLite: fsync before an enqueue is acknowledged; false trades the last moments before a power
    # loss for speed
    durable: bool = True
    # PostgreSQL behind a transaction-mode pooler: no LISTEN, no prepared statements, no session
    # settings
    poll_only: bool = False
    # PostgreSQL connections of one process, at most
    pool_size: int = 6
    # How long a worker's silence is tolerated before its jobs are given to others
    lease_seconds: float = 15.0
    # How often a worker renews its lease and reports its health
    heartbeat_seconds: float = 5.0
    # After how much silence a worker is unhealthy: between heartbeat_seconds and lease_seconds; 0:
    # two thirds of each one's lease
    worker_heartbeat_timeout_seconds: float = 0.0
    # How often an idle worker looks for jobs when no wake-up comes
    poll_seconds: float = 1.0
    # How long a stopping worker waits for running jobs before it hands them back
    grace_seconds: float = 25.0
    # How often due jobs are staged, and lost ones looked for
    upkeep_seconds: float = 0.5
    # How long a leader's lease lasts: after its death, schedules go on within twice this
    leader_seconds: float = 10.0
    # Where `taskforge server` listens: 127.0.0.1 keeps it to this machine
    host: str = "127.0.0.1"
    # The port of `taskforge server`
    port: int = 8080
    # Connections that the server holds at once; streams of events and waiting claims of one
    # credential or organization get a part
    max_connections: int = 2_000
    # Of these, how many one address may hold; connections with a worker key do not count. 0: half
    connections_per_address: int = 0
    # Proxies before the server: addresses and networks, with commas between. Only they are believed
    # whom they act for (X-Forwarded-For); everybody else is who connected
    trusted_proxies: str = ""
    # The address that users reach the server by, such as https://jobs.example.com; it makes cookies
    # secure and links right
    public_url: str = ""
    # Networks that webhooks may reach although they are private, and without encryption: addresses
    # and networks, with commas between. Without it they reach the public internet alone, by https
    outgoing_networks: str = ""
    # The key that signs tokens, at least 32 characters; without one the servers of a store share
    # one that is kept in it
    secret: str = ""
    # Single sign-on with OpenID Connect: the provider, such as https://accounts.example.com, as it
    # names itself; empty is off
    oidc_issuer: str = ""
    # What the provider knows this server as
    oidc_client_id: str = ""
    # The secret that the provider gave out with it
    oidc_client_secret: str = ""
    # How long the audit log is kept
    audit_days: float = 365.0
    # The key that seals the audit log, at least 32 characters; several with commas between: the
    # first seals, the others made earlier seals. Without one it is derived from secret
    audit_key: str = ""
    # A file to read audit_key from, such as one that only the server may read
    audit_key_file: str = ""
    # A file that servers append the head of the audit log to, kept where the store's users do not
    # write; without one it goes to the server's log
    audit_head_file: str = ""
    # How a process writes its log to standard error: text, or json with one object a line
    log_format: str = "text"
    # Whether `taskforge worker`, `server` and `up` send traces by OTLP over HTTP,
    # to where OTEL_EXPORTER_OTLP_ENDPOINT says; an app with a provider of its own needs no setting
    tracing: bool = False
    # Where `taskforge worker` answers GET /metrics, on 127.0.0.1 alone: the port of its first
    # process, and the next ones for those behind it; 0: nowhere
    metrics_port: int = 0
    # How often the leader writes to its log how its project fares: jobs that run, were completed,
    # failed or wait, and workers; 0: never
    report_seconds: float = 0.0
    # How long finished jobs are kept where their queue does not say
    retention_days: float = 7.0
    # Where scaling policies get their workers: a table of name and {kind = "local" (or kubernetes,
    # aws, webhook), projects = ["default"], …}. The same on every node; docs/guides/autoscaling.md
    scaling_providers: dict[str, Any] = {}
    # Of workers that a provider starts: the queue whose scaling policy they are there for, and that
    # may stop them
    scaled_by: str = ""

    @property
    def silence_seconds(self) -> float | None:
        """After which a worker is unhealthy; None: after two thirds of its lease."""
        seconds = self.worker_heartbeat_timeout_seconds
        if seconds >= self.lease_seconds:
            problem = f"is {seconds:g}, and lease_seconds is {self.lease_seconds:g}"
            raise Invalid(
                "worker_heartbeat_timeout_seconds",
                problem,
                "make it shorter than the lease, or 0 for two thirds of it",
            )
        rhythm = self.rhythm_of(self.lease_seconds)
        if 0 < seconds <= rhythm:
            problem = (
                f"is {seconds:g}, and workers are heard of every {rhythm:g} s: they would "
                f"be unhealthy between two heartbeats"
            )
            raise Invalid(
                "worker_heartbeat_timeout_seconds",
                problem,
                "make it longer, shorten heartbeat_seconds, or use 0",
            )
        return seconds or None

    def rhythm_of(self, lease_seconds: float) -> float:
        """How often a worker with this lease is to be heard of: two heartbeats may get lost."""
        return min(self.heartbeat_seconds, lease_seconds / 3)

    @property
    def providers(self) -> dict[str, Declaration]:
        """Where scaling policies may get workers from."""
        return read_declarations("scaling_providers", self.scaling_providers)

    @property
    def is_secure(self) -> bool:
        """Whether users come over TLS, so that cookies may be kept to it."""
        return self.public_url.startswith("https://")

    @property
    def proxies(self) -> tuple[Network, ...]:
        return parse_networks("trusted_proxies", self.trusted_proxies)

    @property
    def opened(self) -> tuple[Network, ...]:
        """What outgoing requests may reach beside the public internet."""
        return parse_networks("outgoing_networks", self.outgoing_networks)

    @property
    def audit_keys(self) -> tuple[str, ...]:
        """Those that seal the audit log, the present one first; read from their file if they are in
        one."""
        text = self.audit_key
        if self.audit_key_file:
            try:
                text = Path(self.audit_key_file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise Invalid(
                    "audit_key_file", f"cannot be read ({error})", "name a file with the key"
                ) from None
            text = _secrets("audit_key_file", ",".join(text.split()))
        return tuple(text.split(",")) if text else ()

    def has_single_sign_on(self) -> bool:
        """Whether it is set. A part of it alone is an error, for it would be off, or fail at the
        first login."""
        parts = ("oidc_issuer", "oidc_client_id", "oidc_client_secret")
        missing = [name for name in parts if not getattr(self, name)]
        if len(missing) == len(parts):
            return False
        if missing:
            raise Invalid(missing[0], "is empty", f"set {', '.join(parts)}, or none of them")
        if not self.public_url and not is_loopback(self.host):
            expected = (
                "set it to the address that users reach the server by: the provider sends "
                "them back there"
            )
            raise Invalid("public_url", "is empty, and single sign-on needs it", expected)
        return True

    def changed(self, **values: Any) -> Self:
        """With these values instead, checked like those that are loaded; None leaves one as it
        is."""
        return msgspec.structs.replace(
            self,
            **{name: _CHECKS[name](name, one) for name, one in values.items() if one is not None},
        )

    @classmethod
    def load(
        cls,
        flags: Mapping[str, Any] | None = None,
        *,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Flags win over the environment, which wins over the file. An unknown name fails and says
        which was meant."""
        return cls(
            **{
                name: found.value
                for name, found in cls.traced(flags, file=file, environment=environment).items()
            }
        )

    @classmethod
    def traced(
        cls,
        flags: Mapping[str, Any] | None = None,
        *,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Found]:
        """Every setting with where it came from, for `taskforge config check`."""
        # an id of digits is not a number
        texts = {field.name for field in msgspec.structs.fields(cls) if field.type is str}
        layers = {
            "file": read_file(file),
            "environment": read_environment(texts, environment),
            "flag": {name: value for name, value in (flags or {}).items() if value is not None},
        }
        defaults = msgspec.structs.asdict(cls())
        found = {name: Found(value, "default") for name, value in defaults.items()}
        for source, values in layers.items():
            for name, value in values.items():
                with told_as(source, name, file):
                    if name not in found:
                        raise rules.unknown("", name, cls.__struct_fields__)
                found[name] = Found(value, source)
        for name, one in found.items():
            if one.source != "default":
                with told_as(one.source, name, file):
                    found[name] = Found(_CHECKS[name](name, one.value), one.source)
        check_token_fits(found["url"], found["token"])
        return found


def _secret(field: str, value: Any) -> str:
    text = rules.text(field, value, least=0, most=1_000)
    if text and (len(text) < 32 or len(set(text)) < 10):
        raise Invalid(field, "is too easy to guess", "use at least 32 random characters, or none")
    return text


def _secrets(field: str, value: Any) -> str:
    """Several, with commas between."""
    text = rules.text(field, value, least=0, most=10_000)
    return ",".join(_secret(field, part.strip()) for part in text.split(",") if part.strip())


def _networks(field: str, value: Any) -> str:
    text = rules.text(field, value, least=0, most=4_000)
    parse_networks(field, text)
    return text


def _providers(field: str, value: Any) -> dict[str, Any]:
    """The table itself, checked."""
    read_declarations(field, value)
    return dict(msgspec.json.decode(value or "{}") if isinstance(value, str) else value)


def _seconds(least: float, most: float) -> Any:
    return lambda field, value: rules.number(field, value, least, most)


_CHECKS: dict[str, Any] = {
    "url": check_store_url,
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
    "leader_seconds": _seconds(0.5, 600),
    "host": lambda field, value: rules.text(field, value, most=255),
    "port": lambda field, value: rules.integer(field, value, 0, 65_535),
    "max_connections": lambda field, value: rules.integer(field, value, 40, 1_000_000),
    "connections_per_address": lambda field, value: rules.integer(field, value, 0, 1_000_000),
    "trusted_proxies": _networks,
    "public_url": check_public_url,
    "outgoing_networks": _networks,
    "secret": _secret,
    "oidc_issuer": check_issuer,
    "oidc_client_id": lambda field, value: rules.text(field, value, least=0, most=500),
    "oidc_client_secret": lambda field, value: rules.text(field, value, least=0, most=2_000),
    "audit_days": _seconds(1, 36_500),
    "audit_key": _secrets,
    "audit_key_file": lambda field, value: rules.text(field, value, least=0, most=4_000),
    "audit_head_file": lambda field, value: rules.text(field, value, least=0, most=4_000),
    "log_format": lambda field, value: rules.choice(field, value, LOG_FORMATS),
    "tracing": rules.flag,
    "metrics_port": lambda field, value: rules.integer(field, value, 0, 65_535),
    "report_seconds": _seconds(0, 86_400),
    "retention_days": _seconds(0.01, 3_650),
    "scaling_providers": _providers,
    "scaled_by": lambda field, value: rules.text(field, value, least=0, most=100),
}
