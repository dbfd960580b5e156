"""Webhooks and what was sent to them as callers see them, and the bodies that make and change
webhooks."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Json, Time
from taskforge.domain.webhook import (
    OVERLAP_SECONDS,
    Delivery,
    NewWebhook,
    Webhook,
    WebhookEdit,
)

_UNSET = msgspec.UNSET


class NewWebhookBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    url: str
    """An https address on the public internet"""
    kinds: tuple[str, ...]
    """Which events are sent: alert, alert_rule, circuit, job, queue, report, scaling,
    scaling_policy, schedule, webhook, worker, in the first organization also leader and node; or
    topics such as job.failed"""
    description: str = ""
    queues: tuple[str, ...] = ()
    """Names or ids: of the events that are of a queue, only these; empty: every queue"""
    report_seconds: float = 60.0
    """How often a report is sent, where `kinds` has it"""
    is_active: bool = True

    def new(self) -> NewWebhook:
        return NewWebhook(**{name: getattr(self, name) for name in self.__struct_fields__})


class WebhookEditBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Fields left out stay as they are."""

    name: str | msgspec.UnsetType = _UNSET
    url: str | msgspec.UnsetType = _UNSET
    kinds: tuple[str, ...] | msgspec.UnsetType = _UNSET
    description: str | msgspec.UnsetType = _UNSET
    queues: tuple[str, ...] | msgspec.UnsetType = _UNSET
    report_seconds: float | msgspec.UnsetType = _UNSET
    is_active: bool | msgspec.UnsetType = _UNSET

    def edit(self) -> WebhookEdit:
        return WebhookEdit(**{name: getattr(self, name) for name in self.__struct_fields__})


class RotationBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    overlap_seconds: float = OVERLAP_SECONDS
    """For how long the secret before signs too"""


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    project: str
    name: str
    url: str
    kinds: tuple[str, ...]
    description: str
    queues: tuple[str, ...]
    """Their ids; empty: every queue"""
    report_seconds: float
    is_active: bool
    disabled_reason: str | None
    """Why the platform switched it off"""
    waiting: int
    """Deliveries that are not over"""
    failures: int
    """Tries that failed in a row"""
    failing_since: Time | None
    delivered_at: Time | None
    """When something last arrived"""
    old_secret_until: Time | None
    """Until when the secret before signs too"""
    version: int
    created_at: Time
    updated_at: Time


class MadeWebhookView(msgspec.Struct, frozen=True):
    webhook: WebhookView
    secret: str
    """What requests are signed with; it is told this once"""


class TryView(msgspec.Struct, frozen=True, kw_only=True):
    at: Time
    seconds: float
    status: int | None
    """Of the answer"""
    answer: str
    """How it began"""
    error: str | None
    """Why there was no answer"""


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    """What receivers see as webhook-id, the same at every try"""
    kind: str
    status: str
    """pending, delivered or failed"""
    attempts: int
    body: Json
    """What is sent"""
    tries: tuple[TryView, ...]
    """What came of the last ones"""
    due_at: Time | None
    created_at: Time
    ended_at: Time | None


class PingView(msgspec.Struct, frozen=True):
    delivery_id: UUID


def webhook_view(webhook: Webhook, projects: dict[int, str]) -> WebhookView:
    own = set(WebhookView.__struct_fields__) - {"project", "kinds", "queues"}
    return WebhookView(
        project=projects[webhook.project],
        kinds=tuple(sorted(webhook.kinds)),
        queues=tuple(sorted(webhook.queues)),
        **{name: getattr(webhook, name) for name in own},
    )


def delivery_view(delivery: Delivery) -> DeliveryView:
    own = set(DeliveryView.__struct_fields__) - {"status", "tries"}
    tries = (
        TryView(**{name: getattr(one, name) for name in TryView.__struct_fields__})
        for one in delivery.read_tries()
    )
    return DeliveryView(
        status=str(delivery.status),
        tries=tuple(tries),
        **{name: getattr(delivery, name) for name in own},
    )
