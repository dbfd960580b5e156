"""Webhooks: which events are sent where, when a delivery is tried again, and when it is given up.
How a body is signed is in `signature`, where it may go in `targets`."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.addresses import Network
from taskforge.domain.errors import Invalid, nearest
from taskforge.domain.event_flow import SUMMED
from taskforge.domain.targets import check_target
from taskforge.domain.versions import mark_of

MOST_WEBHOOKS = 20  # of one project
MOST_WAITING = 10_000  # deliveries of one webhook; one that is further behind is switched off
MOST_QUEUES = 50
KEPT_ENDED = 1_000  # deliveries of one webhook that ended, the newest
KEPT_DAYS = 7.0
OVERLAP_SECONDS = 86_400.0
MOST_OVERLAP_SECONDS = 30 * 86_400.0
GIVEN_UP_DAYS = 5.0  # one that failed for so long is switched off
# Until the next try, as Standard Webhooks proposes it: after the last of them the delivery has
# failed. A report is worth little once the next one comes.
WAITS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
REPORT_WAITS = (5.0, 20.0)
JITTER = 0.2
LONGEST_WAIT = 86_400.0
PATIENT_FAILURES = 3  # in a row; then one delivery at a time finds out whether it is back
LONGEST_HOLD = 60.0
KEPT_TRIES = 12
KEPT_CHARACTERS = 1_000  # of an answer
PING, REPORT = "ping", "report"
# What a filter may name: one of these, or a topic such as job.failed.
GROUPS = (
    *("alert", "alert_rule", "circuit", "job", "leader", "node", "queue", "report"),
    *("scaling", "scaling_policy", "schedule", "webhook", "worker"),
)
OF_THE_CLUSTER = ("node", "leader")  # no tenant's
_KIND = re.compile(r"[a-z_]{1,40}(\.[a-z_]{1,40})?")


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Where some events of a project are sent, and how that goes. Its secret is kept apart."""

    number: int
    id: UUID
    project: int
    organization: int
    name: str
    url: str
    description: str
    kinds: frozenset[str]
    queues: frozenset[str]  # their ids; none: every queue
    report_seconds: float
    is_active: bool
    disabled_reason: str | None  # why the platform switched it off
    since: datetime  # it has been sent events
    waiting: int  # deliveries that are not over
    failures: int  # in a row
    failing_since: datetime | None
    delivered_at: datetime | None  # the last one
    old_secret_until: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def mark(self) -> str:
        return mark_of(self.id, self.version)

    @property
    def origin(self) -> str:
        return origin_of(self.url)


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str
    kinds: Sequence[str]
    description: str = ""
    queues: Sequence[str] = ()
    report_seconds: float = 60.0
    is_active: bool = True


class WebhookEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is UNSET stays."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    url: str | msgspec.UnsetType = msgspec.UNSET
    kinds: Sequence[str] | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    queues: Sequence[str] | msgspec.UnsetType = msgspec.UNSET
    report_seconds: float | msgspec.UnsetType = msgspec.UNSET
    is_active: bool | msgspec.UnsetType = msgspec.UNSET


class MadeWebhook(msgspec.Struct, frozen=True):
    """With the secret, which is told this once."""

    webhook: Webhook
    secret: str


class Try(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of sending once."""

    at: datetime
    seconds: float
    status: int | None = None  # of the answer
    answer: str = ""  # how it began
    error: str | None = None  # why there was none
    retry_after: float | None = None  # what the answer asked for

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """The receiver says that it wants no more."""
        return self.status == 410


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    id: UUID
    webhook: int
    project: int
    kind: str
    body: msgspec.Raw
    status: DeliveryStatus
    attempts: int
    tries: msgspec.Raw  # the last ones, as JSON
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None

    def read_tries(self) -> list[Try]:
        return _read_tries(self.tries)


_read_tries = msgspec.json.Decoder(list[Try]).decode


class WebhookHealth(msgspec.Struct, frozen=True):
    """How a webhook fares, from one try to the next."""

    failures: int = 0
    failing_since: datetime | None = None
    held_until: datetime | None = None  # nothing is sent before


def check_new_webhook(
    new: NewWebhook, opened: Sequence[Network], *, sees_cluster: bool
) -> NewWebhook:
    """`opened`: networks that webhooks may reach beside the public internet."""
    return NewWebhook(
        name=rules.text("name", new.name, most=100),
        url=check_target("url", new.url, opened),
        kinds=check_kinds(new.kinds, sees_cluster=sees_cluster),
        description=rules.text("description", new.description, least=0, most=1_000),
        queues=check_queues(new.queues),
        report_seconds=_report_seconds(new.report_seconds),
        is_active=rules.flag("is_active", new.is_active),
    )


def edit_webhook(
    old: Webhook,
    edit: WebhookEdit,
    now: datetime,
    opened: Sequence[Network],
    *,
    sees_cluster: bool,
) -> Webhook:
    """The webhook as it is from now on. One that is switched on begins anew: with what happens
    from now on, and with what still waits."""
    checks: dict[str, Callable[[Any], Any]] = {
        "name": lambda value: rules.text("name", value, most=100),
        "url": lambda value: check_target("url", value, opened),
        "kinds": lambda value: frozenset(check_kinds(value, sees_cluster=sees_cluster)),
        "description": lambda value: rules.text("description", value, least=0, most=1_000),
        "queues": lambda value: frozenset(check_queues(value)),
        "report_seconds": _report_seconds,
        "is_active": lambda value: rules.flag("is_active", value),
    }
    given = {
        name: check(value)
        for name, check in checks.items()
        if (value := getattr(edit, name)) is not msgspec.UNSET
    }
    if given.get("is_active", False) and not old.is_active:
        given |= {"since": now, "disabled_reason": None}
    if "url" in given or given.get("is_active", False):
        given |= {"failures": 0, "failing_since": None}
    return msgspec.structs.replace(old, **given, version=old.version + 1, updated_at=now)


def check_kinds(kinds: Any, *, sees_cluster: bool) -> list[str]:
    """As they are kept: `job.*` is `job`."""
    expected = f"use {', '.join(GROUPS)}, or topics such as job.failed"
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise Invalid("kinds", "is no list", expected)
    found = sorted({str(kind).removesuffix(".*") for kind in kinds})
    if not 1 <= len(found) <= 50:
        raise Invalid("kinds", f"has {len(found)} entries", "use 1 to 50")
    for kind in found:
        group = kind.partition(".")[0]
        if _KIND.fullmatch(kind) is None or group not in GROUPS:
            near = nearest(group, GROUPS)
            raise Invalid(
                "kinds", f"{kind!r} is not known", f"did you mean {near!r}?" if near else expected
            )
        if group in OF_THE_CLUSTER and not sees_cluster:
            problem = f"{kind!r} is of the platform's own processes"
            raise Invalid("kinds", problem, "leave it out: only the first organization sees those")
    return found


def check_queues(queues: Any) -> list[str]:
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        raise Invalid("queues", "is no list", "use a list of names or ids of queues")
    found = sorted({rules.text("queues", queue, most=100) for queue in queues})
    if len(found) > MOST_QUEUES:
        raise Invalid("queues", f"has {len(found)} entries", f"use at most {MOST_QUEUES}")
    return found


def is_asked_for(kinds: Iterable[str], topic: str) -> bool:
    """What is told twice a second is only sent to those who name it."""
    return topic in kinds or (topic.partition(".")[0] in kinds and topic not in SUMMED)


def origin_of(url: str) -> str:
    """An address without what may be a secret in it: some are told nothing else."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def next_wait(kind: str, attempts: int, chance: float, retry_after: float | None) -> float | None:
    """Seconds until a delivery is tried again that failed for so many times; None: never.
    `chance` in [0, 1) is the caller's draw."""
    waits = REPORT_WAITS if kind == REPORT else WAITS
    if attempts > len(waits):
        return None
    wait = waits[attempts - 1] * (1 + JITTER * (2 * chance - 1))
    return max(wait, min(retry_after or 0.0, LONGEST_WAIT))


def judge_tries(health: WebhookHealth, tries: Sequence[Try], now: datetime) -> WebhookHealth:
    """After these tries, in the order in which they ended."""
    failures, since = health.failures, health.failing_since
    for one in tries:
        failures = 0 if one.is_success else failures + 1
        since = None if one.is_success else since or now
    if failures < PATIENT_FAILURES:
        return WebhookHealth(failures, since)
    hold = min(LONGEST_HOLD, 2.0 ** min(failures - PATIENT_FAILURES + 1, 10))
    return WebhookHealth(failures, since, now + timedelta(seconds=hold))


def reason_to_switch_off(health: WebhookHealth, tries: Iterable[Try], now: datetime) -> str | None:
    if any(one.is_gone for one in tries):
        return "the receiver answered 410: it wants no more"
    since = health.failing_since
    if since is not None and now - since > timedelta(days=GIVEN_UP_DAYS):
        return f"every delivery has failed for {GIVEN_UP_DAYS:g} days"
    return None


def _report_seconds(value: Any) -> float:
    return rules.number("report_seconds", value, 10, 86_400)
