"""Sending: what is tried again, with the same key, and what the caller hears."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from taskforge.client import jobs, queues
from taskforge.client.problems import AnswerLost
from taskforge.client.transport import SyncTransport, Transport, options_for
from taskforge.domain.changes import CancelJob
from taskforge.domain.errors import Invalid, StoreUnavailable, StoreUnsuitable
from taskforge.domain.ids import IdMint
from taskforge.domain.job import Inserted, new_job

JOB = IdMint()()
Answer = Callable[[httpx2.Request], httpx2.Response]


class Wire:
    """Answers in turn, or fails as told."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.seen: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def options(self) -> dict[str, Any]:
        return options_for("https://jobs.example.com/base/", "tfk_x") | {
            "transport": httpx2.MockTransport(self)
        }


def created() -> httpx2.Response:
    return httpx2.Response(201, json={"id": str(JOB), "existed": True})


async def test_an_enqueue_whose_answer_was_lost_is_sent_again_with_the_same_key() -> None:
    wire = Wire(httpx2.ReadError("gone"), httpx2.Response(502), created())
    transport = Transport(wire.options(), chance=lambda: 0.0)
    assert await transport.send(
        jobs.insert_one(new_job("mail", "send", {"a": 1}), "made")
    ) == Inserted(JOB)
    assert [one.headers["idempotency-key"] for one in wire.seen] == ["made"] * 3
    assert len({one.content for one in wire.seen}) == 1
    assert wire.seen[0].url == "https://jobs.example.com/base/api/v1/jobs"
    assert wire.seen[0].headers["authorization"] == "Bearer tfk_x"
    await transport.close()


async def test_a_change_whose_answer_was_lost_is_not_made_twice() -> None:
    wire = Wire(httpx2.ReadTimeout("slow"))
    transport = Transport(wire.options())
    with pytest.raises(AnswerLost, match=r"https://jobs\.example\.com"):
        await transport.send(jobs.change(JOB, CancelJob()))
    wire = Wire(
        httpx2.ConnectError("refused"),
        httpx2.Response(200, json={"id": str(JOB), "status": "cancelled", "note": None}),
    )
    transport = Transport(wire.options(), chance=lambda: 0.0)
    assert (await transport.send(jobs.change(JOB, CancelJob()))).status == "cancelled"


async def test_who_stays_away_is_reported_after_a_few_tries() -> None:
    wire = Wire(*[httpx2.ConnectError("refused")] * 10)
    transport = Transport(wire.options(), chance=lambda: 0.0)
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        await transport.send(queues.stats())
    assert len(wire.seen) == 4


def test_the_sync_client_is_a_thin_face_on_the_same() -> None:
    wire = Wire(httpx2.ReadError("gone"), created())
    transport = SyncTransport(wire.options(), chance=lambda: 0.0)
    assert transport.send(jobs.insert_one(new_job("mail", "send"), "made")) == Inserted(JOB)
    assert len(wire.seen) == 2
    transport.close()


async def test_a_certificate_that_cannot_be_trusted_is_not_tried_again() -> None:
    import ssl

    failure = httpx2.ConnectError("verify failed")
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed")
    cause.verify_message = "self-signed certificate"
    failure.__cause__ = cause
    wire = Wire(failure)
    with pytest.raises(StoreUnsuitable, match="self-signed certificate"):
        await Transport(wire.options()).send(queues.stats())
    assert len(wire.seen) == 1


@pytest.mark.parametrize(
    "url", ["https://", "ftp://jobs.example.com", "https://jobs.example.com?x=1"]
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        options_for(url, "")


def test_a_token_in_the_clear_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    options_for("http://127.0.0.1:8080", "tfk_secret")
    assert not caplog.records
    options_for("http://jobs.example.com", "tfk_secret")
    assert "without encryption" in caplog.text
    assert "tfk_secret" not in caplog.text
