"""Workers from a receiver of webhooks, which is a small server of the test's own."""

import builtins
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from taskforge.control.providers.factory import FleetOwner, make_provider
from taskforge.control.providers.provider import Departing, Fleet, Provider, ProviderFailed
from taskforge.domain.addresses import parse_networks
from taskforge.domain.scaling_provider import (
    AwsDeclaration,
    KubernetesDeclaration,
    NoneDeclaration,
    WebhookDeclaration,
)
from taskforge.domain.signature import new_secret, verify
from tests.support.front import Answer, Asked, Front, served

SECRET = new_secret()
OWNER = FleetOwner(policy=UUID(int=7), queue="mail", project="acme/shop")
LOOPBACK = parse_networks("outgoing_networks", "127.0.0.0/8")
WORKER = Departing(worker_id=UUID(int=1), name="w", host="box", pid=4, capabilities={"gpu": True})


class Receiver:
    """Keeps workers as its documentation says: by the number wanted, and by worker."""

    def __init__(self) -> None:
        self.wanted = 2
        self.stopped: set[str] = set()
        self.forged = 0

    def answer(self, asked: Asked) -> Answer:
        if not verify(SECRET, asked.headers, asked.body, datetime.now(UTC)):
            self.forged += 1
            return Answer(401, b"", {})
        body = json.loads(asked.body)
        assert (body["queue"], body["project"]) == ("mail", "acme/shop")
        if body["action"] == "scale_up":
            self.wanted = max(self.wanted, body["wanted"])
        elif body["action"] == "stop" and body["worker"]["id"] not in self.stopped:
            self.stopped.add(body["worker"]["id"])
            self.wanted -= 1
        return Answer(200, json.dumps({"wanted": self.wanted, "running": 1}).encode(), {})


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def front(receiver: Receiver) -> Iterator[Front]:
    with served(receiver.answer) as front:
        yield front


@pytest.fixture
def declaration(front: Front) -> WebhookDeclaration:
    return WebhookDeclaration(url=f"{front.url}/scale", secret=SECRET, timeout_seconds=3)


@pytest.fixture
async def provider(declaration: WebhookDeclaration) -> AsyncIterator[Provider]:
    made = make_provider(declaration, OWNER, opened=LOOPBACK)
    yield made
    await made.close()


async def test_requests_are_signed_and_may_be_repeated(
    provider: Provider, receiver: Receiver, front: Front
) -> None:
    assert await provider.current() == Fleet(2, 1)
    for _ in range(2):
        await provider.scale_up(3, above=2)
    assert (await provider.current()).wanted == 5
    for _ in range(2):
        await provider.stop(WORKER)
    assert (await provider.current()).wanted == 4
    assert receiver.forged == 0
    asked = [json.loads(one.body) for one in front.asked]
    policy = str(UUID(int=7))
    assert asked[1] == {
        "action": "scale_up",
        "project": "acme/shop",
        "queue": "mail",
        "policy": policy,
        "count": 3,
        "wanted": 5,
    }
    assert asked[4]["worker"] == {
        "id": str(UUID(int=1)),
        "name": "w",
        "host": "box",
        "pid": 4,
        "capabilities": {"gpu": True},
    }
    assert len({one.headers["webhook-id"] for one in front.asked}) == len(asked)


@pytest.mark.parametrize(
    ("answer", "said", "retry_after"),
    [
        (Answer(503, b"", {"retry-after": "9"}), "answered 503 to current", 9.0),
        (Answer(302, b"", {"location": "http://127.0.0.1:9"}), "answered 302 to current", None),
        (Answer(200, b"<html>", {}), "but with '<html>'", None),
        (Answer(200, b'{"wanted": -1}', {}), "answered with -1 wanted", None),
    ],
)
async def test_an_answer_that_is_none_is_told(
    provider: Provider, front: Front, answer: Answer, said: str, retry_after: float | None
) -> None:
    front.answer = lambda _: answer
    with pytest.raises(ProviderFailed) as caught:
        await provider.current()
    assert said in str(caught.value)
    assert caught.value.retry_after == retry_after


async def test_a_wrong_secret_is_refused_by_the_receiver(
    declaration: WebhookDeclaration, receiver: Receiver
) -> None:
    provider = make_provider(replace(declaration, secret=new_secret()), OWNER, opened=LOOPBACK)
    with pytest.raises(ProviderFailed, match="answered 401 to scale_up"):
        await provider.scale_up(1, above=2)
    assert (receiver.wanted, receiver.forged) == (2, 1)
    await provider.close()


async def test_a_receiver_that_hangs_is_left_in_time(
    declaration: WebhookDeclaration, front: Front
) -> None:
    front.hangs.set()
    provider = make_provider(replace(declaration, timeout_seconds=0.4), OWNER, opened=LOOPBACK)
    began = time.monotonic()
    with pytest.raises(ProviderFailed, match=r"did not answer: no whole answer within 0\.4 s"):
        await provider.stop(WORKER)
    assert time.monotonic() - began < 2
    await provider.close()


async def test_a_private_address_is_reached_only_if_its_network_is_opened(
    declaration: WebhookDeclaration, front: Front
) -> None:
    provider = make_provider(declaration, OWNER)
    with pytest.raises(ProviderFailed, match=r"is not reached: .*outgoing_networks"):
        await provider.current()
    assert front.asked == []
    await provider.close()


@pytest.mark.parametrize(
    ("declaration", "missing", "extra"),
    [
        (KubernetesDeclaration(deployment="w"), "kubernetes", "kubernetes"),
        (AwsDeclaration(group="w"), "aws", "aws"),
    ],
)
def test_a_missing_extra_is_named(
    declaration: Any, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *values: Any, **named: Any) -> Any:
        if name == f"taskforge.control.providers.{missing}":
            raise ModuleNotFoundError(name="its library")
        return real(name, *values, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ProviderFailed) as caught:
        make_provider(declaration, OWNER)
    assert f"pip install 'taskforge-platform[{extra}]'" in str(caught.value)


def test_recommendations_alone_have_no_provider() -> None:
    with pytest.raises(ProviderFailed, match="of kind none cannot be made"):
        make_provider(NoneDeclaration(), OWNER)
