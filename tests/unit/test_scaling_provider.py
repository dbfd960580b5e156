"""Declarations of providers: what is taken, and what is said of a mistake."""

from typing import Any

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.scaling_provider import (
    AwsDeclaration,
    KubernetesDeclaration,
    NoneDeclaration,
    WebhookDeclaration,
    read_declaration,
)

SECRET = "whsec_" + "A" * 32


def test_each_kind_is_read_with_its_defaults() -> None:
    pods = read_declaration("p", {"kind": "kubernetes", "deployment": "workers"})
    assert pods == KubernetesDeclaration(deployment="workers")
    machines = {"kind": "aws", "group": "workers", "region": "eu-central-1", "timeout_seconds": 3}
    assert read_declaration("p", machines) == AwsDeclaration(
        group="workers", region="eu-central-1", timeout_seconds=3
    )
    assert read_declaration("p", {"kind": "none"}) == NoneDeclaration()
    hook = read_declaration(
        "p", {"kind": "webhook", "url": "https://example.com/scale", "secret": SECRET}
    )
    assert isinstance(hook, WebhookDeclaration)
    assert SECRET not in repr(hook)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("aws", "providers.p: is not a table"),
        ({}, "providers.p.kind: is missing; use one of none, kubernetes, aws, webhook"),
        ({"kind": "kubernets"}, "providers.p.kind: is 'kubernets'; did you mean 'kubernetes'?"),
        ({"kind": "aws"}, "providers.p.group: is missing; every aws provider has one"),
        (
            {"kind": "aws", "group": "w", "regoin": "x"},
            "providers.p.regoin: is not a known setting; did you mean 'region'?",
        ),
        ({"kind": "aws", "group": "w", "region": "Frankfurt"}, "providers.p.region: is 'Frankf"),
        ({"kind": "aws", "group": 7}, "providers.p.group: cannot be used (Expected `str`"),
        ({"kind": "aws", "group": ""}, "providers.p.group: has 0 characters"),
        (
            {"kind": "aws", "group": "w", "endpoint_url": "http://example.com"},
            "providers.p.endpoint_url: is not an address with https",
        ),
        ({"kind": "none", "timeout_seconds": 0}, "providers.p.timeout_seconds: is 0"),
        ({"kind": "kubernetes", "deployment": "My Workers"}, "providers.p.deployment: is 'My W"),
        (
            {"kind": "kubernetes", "deployment": "w", "context": "a"},
            "providers.p.context: has no kubeconfig",
        ),
        (
            {"kind": "webhook", "url": "https://u:p@example.com", "secret": SECRET},
            "providers.p.url: holds a user or a password",
        ),
        (
            {"kind": "webhook", "url": "https://localhost@[", "secret": SECRET},
            "providers.p.url: is 'https://localhost@[', which cannot be read",
        ),
        (
            {"kind": "webhook", "url": "https://example.com", "secret": "hunter2"},
            "providers.p.secret: cannot be read; use whsec_ and 24 to 64 random bytes",
        ),
    ],
)
def test_a_mistake_is_told_with_its_field_and_what_would_be_right(document: Any, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_declaration("providers.p", document)
    assert str(caught.value).startswith(said)
    assert "hunter2" not in str(caught.value)
