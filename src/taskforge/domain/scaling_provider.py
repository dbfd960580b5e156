"""Where the workers of a scaling policy come from, as the operator of a server declares it. Each
kind is a struct with the settings of its provider; `read_declaration` is the one way to them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from taskforge.domain import rules
from taskforge.domain.addresses import parse_networks
from taskforge.domain.errors import Invalid, nearest
from taskforge.domain.signature import read_secret
from taskforge.domain.targets import check_target
from taskforge.domain.urls import is_loopback

MOST_TIMEOUT_SECONDS = 120.0
_ANYWHERE = parse_networks("", "0.0.0.0/0, ::/0")
NONE = "none"  # the provider of a policy that names none


class Declaration(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Of one provider. A subclass has a field for each setting, and its rule in `check`."""

    timeout_seconds: float = 15.0  # within which every call to the provider ends
    # who may name it in a policy: projects as `name` (of the first organization) or
    # `organization/name`, and whole organizations; `*` is everybody
    projects: tuple[str, ...] = ()
    organizations: tuple[str, ...] = ()

    def check(self, field: str) -> None:
        name = f"{field}.timeout_seconds"
        rules.number(name, self.timeout_seconds, 0.1, MOST_TIMEOUT_SECONDS)
        for key in ("projects", "organizations"):
            for place, one in enumerate(getattr(self, key)):
                rules.text(f"{field}.{key}[{place}]", one, most=201)

    def admits(self, organization: str, project: str, *, is_first: bool) -> bool:
        """Whether policies of this project may name it. `is_first`: it is one of the first
        organization."""
        names = {"*", f"{organization}/{project}"} | ({project} if is_first else set())
        return not names.isdisjoint(self.projects) or not {"*", organization}.isdisjoint(
            self.organizations
        )


class NoneDeclaration(Declaration, frozen=True, kw_only=True, tag="none"):
    """Nobody: the policy's recommendations are all there is."""


class LocalDeclaration(Declaration, frozen=True, kw_only=True, tag="local"):
    """Processes of `taskforge worker` on the machine of whoever leads."""

    app: str  # where the TaskForge object is: module:name
    directory: str = ""  # the folder they run in; empty: that of the process that leads
    slots: int = 10  # of each worker
    grace_seconds: float = 25.0  # how long one that is stopped waits for what it runs

    def check(self, field: str) -> None:
        super().check(field)
        rules.text(f"{field}.app", self.app, most=500)
        if self.app.startswith("-"):
            raise Invalid(f"{field}.app", f"is {self.app!r}", "use module:name, such as app:forge")
        rules.text(f"{field}.directory", self.directory, least=0, most=4_000)
        rules.integer(f"{field}.slots", self.slots, 1, 1_000)
        rules.number(f"{field}.grace_seconds", self.grace_seconds, 0, 86_400)


class KubernetesDeclaration(Declaration, frozen=True, kw_only=True, tag="kubernetes"):
    """The replicas of a Deployment."""

    deployment: str
    namespace: str = ""  # empty: that of the service account, or of the kubeconfig's context
    kubeconfig: str = ""  # a file; empty: the service account of the pod, else what kubectl reads
    context: str = ""  # of the kubeconfig; empty: its current one
    # after this long a pod that is still pending counts as one that never comes
    pending_seconds: float = 300.0

    def check(self, field: str) -> None:
        super().check(field)
        _dns_name(f"{field}.deployment", self.deployment)
        if self.namespace:
            _dns_name(f"{field}.namespace", self.namespace)
        rules.text(f"{field}.kubeconfig", self.kubeconfig, least=0, most=4_000)
        rules.text(f"{field}.context", self.context, least=0, most=500)
        if self.context and not self.kubeconfig:
            raise Invalid(f"{field}.context", "has no kubeconfig", "name the kubeconfig it is in")
        rules.number(f"{field}.pending_seconds", self.pending_seconds, 10, 86_400)


class AwsDeclaration(Declaration, frozen=True, kw_only=True, tag="aws"):
    """The instances of an EC2 Auto Scaling group. Credentials come from where boto3 finds them:
    the environment, a profile, or the role of the machine."""

    group: str
    region: str = ""  # empty: the one that boto3 finds
    profile: str = ""  # empty: the default one
    endpoint_url: str = ""  # empty: that of AWS
    # whether instances are protected, so that AWS ends none of them by its own choice
    protect: bool = True

    def check(self, field: str) -> None:
        super().check(field)
        rules.text(f"{field}.group", self.group, most=255)
        if self.region and not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", self.region):
            problem = f"is {self.region!r}"
            raise Invalid(f"{field}.region", problem, "use a region such as eu-central-1")
        rules.text(f"{field}.profile", self.profile, least=0, most=255)
        if self.endpoint_url:
            _safe_url(f"{field}.endpoint_url", self.endpoint_url)


class WebhookDeclaration(Declaration, frozen=True, kw_only=True, tag="webhook"):
    """Whoever answers signed requests at an address."""

    url: str
    secret: str  # what requests are signed with; whsec_ and base64, as the receiver has it

    def check(self, field: str) -> None:
        super().check(field)
        # where it leads is judged when a request is sent, by the networks that are opened
        check_target(f"{field}.url", self.url, _ANYWHERE)
        read_secret(f"{field}.secret", self.secret)

    def __repr__(self) -> str:
        return f"WebhookDeclaration(url={self.url!r}, timeout_seconds={self.timeout_seconds!r})"


REMOTE_KINDS: tuple[type[Declaration], ...] = (
    NoneDeclaration,
    KubernetesDeclaration,
    AwsDeclaration,
    WebhookDeclaration,
)


KINDS: tuple[type[Declaration], ...] = (LocalDeclaration, *REMOTE_KINDS)


def read_declarations(field: str, value: Any) -> dict[str, Declaration]:
    """Of all providers, by name: a table of tables, or the same as JSON."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value or "{}")
        except msgspec.DecodeError as error:
            expected = 'use an object such as {"near": {"kind": "local", "app": "app:forge"}}'
            raise Invalid(field, f"is not valid JSON ({error})", expected) from None
    if not isinstance(value, Mapping):
        raise Invalid(field, "is not a table", f'use [{field}.name] with kind = "..." below')
    if NONE in value:
        raise Invalid(f"{field}.{NONE}", "is there without being declared", "leave it out")
    declared = {
        rules.text(field, name, most=100): read_declaration(f"{field}.{name}", one, KINDS)
        for name, one in value.items()
    }
    for name, one in declared.items():
        if not one.projects and not one.organizations:
            expected = 'name who may: projects = ["default"], or ["*"] for everybody'
            raise Invalid(f"{field}.{name}.projects", "is missing, so nobody may use it", expected)
    return declared


def read_declaration(
    field: str, document: Any, kinds: Sequence[type[Declaration]] = REMOTE_KINDS
) -> Declaration:
    """A checked declaration from what a settings file says of a provider."""
    if not isinstance(document, Mapping):
        raise Invalid(field, "is not a table", 'write it like {kind = "none"}')
    by_kind = {str(kind.__struct_config__.tag): kind for kind in kinds}
    name = document.get("kind")
    kind = by_kind.get(name) if isinstance(name, str) else None
    if kind is None:
        near = None if name is None else nearest(str(name), by_kind)
        known = f"did you mean {near!r}?" if near else "use one of " + ", ".join(by_kind)
        raise Invalid(f"{field}.kind", "is missing" if name is None else f"is {name!r}", known)
    for key in document:
        if key != "kind" and key not in kind.__struct_fields__:
            raise rules.unknown(field, str(key), kind.__struct_fields__)
    for one in msgspec.structs.fields(kind):
        if one.required and one.name not in document:
            raise Invalid(f"{field}.{one.name}", "is missing", f"every {name} provider has one")
    try:
        declaration = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        at = f"{field}.{place.rstrip('`')}" if place else field
        raise Invalid(at, f"cannot be used ({problem})", "use a value of that type") from None
    declaration.check(field)
    return declaration


def _dns_name(field: str, value: str) -> None:
    rules.text(field, value, most=253)
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", value):
        expected = "use lower-case letters, digits, - and ., as Kubernetes does"
        raise Invalid(field, f"is {value!r}", expected)


def _safe_url(field: str, value: str) -> None:
    """What is sent there may not be read on the way: https, or this machine."""
    rules.text(field, value, most=2_000)
    expected = "use an address such as https://example.com"
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise Invalid(field, "cannot be read as an address", expected) from None
    host = parts.hostname or ""
    is_local = parts.scheme == "http" and is_loopback(host)
    if not host or (parts.scheme != "https" and not is_local):
        raise Invalid(field, "is not an address with https", expected)
    if parts.username is not None:
        raise Invalid(field, "has a user in it", "leave user and password out")
