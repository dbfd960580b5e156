"""Requests as values: where they go, what they carry, and when they may be sent again."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from taskforge.client import jobs, queues, requests, worker_protocol
from taskforge.client.problems import AnswerLost
from taskforge.client.requests import LONGEST_WAIT_SECONDS, REPEATS, wait_before_repeat
from taskforge.domain.changes import (
    CancelJob,
    DeleteJob,
    EditJob,
    ErasePayload,
    RedriveJob,
    RetryJob,
)
from taskforge.domain.errors import (
    Conflict,
    Invalid,
    QueuePaused,
    StoreUnavailable,
    StoreUnsuitable,
)
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import Inserted, JobStatus, Refused, new_job
from taskforge.domain.log import Level, Line, NewLine
from taskforge.domain.outcome import Success
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import QueueSettings, UpdateQueue
from taskforge.domain.worker import UpdateWorker

mint = IdMint()
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _body(request: Any) -> Any:
    return msgspec.json.decode(request.body)


def test_a_job_is_sent_as_it_was_built() -> None:
    job = new_job(
        "mail",
        "send",
        {"to": "a"},
        at=5,
        deadline=AT,
        expires=60,
        tags=["x"],
        requires={"gpu": True},
        unique_key="u",
        priority=3,
    )
    assert _body(jobs.insert_one(job, "k")) == {
        "queue": "mail",
        "job_type": "send",
        "payload": {"to": "a"},
        "priority": 3,
        "delay_seconds": 5.0,
        "timeout_at": "2026-01-02T03:04:05Z",
        "expires_seconds": 60.0,
        "tags": ["x"],
        "requires": {"gpu": True},
        "unique_key": "u",
    }


def test_every_enqueue_has_a_key_and_can_be_sent_again() -> None:
    plain, keyed = new_job("mail", "send"), new_job("mail", "send", idempotency_key="mine")
    assert jobs.insert_one(plain, "made").headers == {"Idempotency-Key": "made"}
    assert jobs.insert_one(keyed, "made").headers == {}
    assert _body(jobs.insert_one(keyed, "made"))["idempotency_key"] == "mine"
    many = jobs.insert_many([plain, plain], [jobs.body_of(plain)] * 2, "made")
    assert (many.headers, many.repeatable, len(_body(many))) == (
        {"Idempotency-Key": "made"},
        True,
        2,
    )


@pytest.mark.parametrize(
    ("options", "existed"),
    [({}, False), ({"unique_key": "u"}, True), ({"idempotency_key": "i"}, True)],
)
def test_what_is_there_already_because_we_sent_it_twice_is_new(
    options: dict[str, str], existed: bool
) -> None:
    job = mint()
    answer = msgspec.json.encode({"id": job, "existed": True})
    assert jobs.insert_one(new_job("mail", "send", **options), "k").read(answer) == Inserted(
        job, existed
    )  # type: ignore[arg-type]


def test_the_answer_to_many_keeps_their_order() -> None:
    first, last = mint(), mint()
    answer = {
        "ids": [first, None, last, None],
        "existed": [],
        "errors": [
            {
                "index": 1,
                "type": "urn:taskforge:problem:queue-paused",
                "detail": "…",
                "context": {"queue": "mail"},
            },
            {
                "index": 3,
                "type": "urn:taskforge:problem:invalid",
                "detail": "…",
                "errors": [
                    {"pointer": "#/3/payload", "detail": "is too large", "expected": "use less"}
                ],
            },
        ],
    }
    made = [new_job("mail", "send")] * 4
    found = jobs.insert_many(made, [jobs.body_of(one) for one in made], "k").read(
        msgspec.json.encode(answer)
    )
    assert (found[0], found[2]) == (Inserted(first), Inserted(last))
    assert isinstance(found[1], Refused)
    assert isinstance(found[1].error, QueuePaused)
    assert isinstance(found[3], Refused)
    assert isinstance(found[3].error, Invalid)
    assert (found[3].error.field, found[3].error.expected) == ("payload", "use less")


def test_slices_fit_into_one_call_each() -> None:
    assert list(jobs.slices([b"x"] * 25_001)) == [(0, 10_000), (10_000, 20_000), (20_000, 25_001)]
    sized = [b"x" * 3_000_000] * 5
    assert list(jobs.slices(sized)) == [(0, 2), (2, 4), (4, 5)]
    assert list(jobs.slices([b"x" * 9_000_000, b"y"])) == [(0, 1), (1, 2)]
    assert list(jobs.slices([])) == []


def test_a_listing_names_only_what_narrows() -> None:
    wanted = JobFilter(
        queues=("a b",), statuses=(JobStatus.FAILED, JobStatus.CANCELLED), created_after=AT
    )
    request = jobs.list_jobs(wanted, Page(limit=5))
    assert request.target == (
        "/api/v1/jobs?limit=5&queue=a+b&status=failed&status=cancelled&created_after=2026-01-02T03%3A04%3A05%2B00%3A00"
    )


@pytest.mark.parametrize(
    ("verb", "method", "path", "body"),
    [
        (CancelJob("no"), "POST", "/cancel", {"reason": "no"}),
        (RetryJob(2), "POST", "/retry", {"attempts": 2}),
        (RedriveJob(), "POST", "/redrive", {}),
        (
            EditJob(priority=4, at=10.0, payload=b'{"a":1}'),
            "PATCH",
            "",
            {"priority": 4, "delay_seconds": 10, "payload": {"a": 1}},
        ),
        (EditJob(at=AT), "PATCH", "", {"scheduled_for": "2026-01-02T03:04:05Z"}),
        (DeleteJob(), "DELETE", "", None),
        (ErasePayload(), "DELETE", "/payload", None),
    ],
)
def test_changes_go_to_their_own_address(verb: Any, method: str, path: str, body: Any) -> None:
    job = mint()
    request = jobs.change(job, verb)
    assert (request.method, request.path, request.repeatable) == (
        method,
        f"/jobs/{job}{path}",
        False,
    )
    assert (None if request.body is None else _body(request)) == body


def test_settings_of_a_queue_are_sent_whole_because_the_server_merges() -> None:
    request = queues.change_queue(
        UpdateQueue(queue=uuid4(), settings=QueueSettings(max_retries=2), expected_version=3)
    )
    sent = _body(request)["settings"]
    assert set(sent) == set(QueueSettings.__struct_fields__)
    assert (sent["max_retries"], sent["rate_limit"], sent["timeout_seconds"]) == (2, None, 300)
    assert request.headers == {"If-Match": '"3"'}


def test_a_worker_is_renamed_and_drained_with_a_call_each() -> None:
    found = queues.change_worker(UpdateWorker(worker=uuid4(), name="new", drain_mode=True))
    assert [request.path.rpartition("/")[2] for request in found][1] == "drain"
    assert [request.method for request in found] == ["PATCH", "POST"]


def test_reports_of_a_worker_go_in_batches_that_the_server_takes() -> None:
    incarnation, fence = uuid4(), fence_of(mint(), 1)
    ended = [(fence, Success(b'{"a":1}'), 0.5)] * 2_500
    sizes = [
        len(_body(request)["outcomes"]) for request in worker_protocol.complete(incarnation, ended)
    ]
    assert sizes == [1_000, 1_000, 500]
    large = [(fence, Success(b'"' + b"x" * 1_000_000 + b'"'), None)] * 10
    assert [
        len(_body(request)["outcomes"]) for request in worker_protocol.complete(incarnation, large)
    ] == [7, 3]
    [lines] = worker_protocol.logs(incarnation, [NewLine(fence, Level.WARN, "hm", b'{"n":1}', 0.2)])
    assert _body(lines) == {
        "incarnation": str(incarnation),
        "lines": [
            {
                "execution": str(fence),
                "message": "hm",
                "level": "warn",
                "metadata": {"n": 1},
                "seconds_ago": 0.2,
            }
        ],
    }


# --- Sending again ---


def test_what_never_left_is_sent_again_and_what_may_have_arrived_only_if_twice_is_once() -> None:
    away, lost = StoreUnavailable("away"), AnswerLost("lost")
    reading, changing = queues.stats(), jobs.change(mint(), CancelJob())
    assert wait_before_repeat(reading, 1, lost, 0.5) is not None
    assert wait_before_repeat(changing, 1, away, 0.5) is not None
    assert wait_before_repeat(changing, 1, lost, 0.5) is None
    assert wait_before_repeat(reading, 1, Conflict("no"), 0.5) is None
    assert wait_before_repeat(reading, REPEATS + 1, away, 0.5) is None
    # the worker decides
    assert wait_before_repeat(worker_protocol.deregister(uuid4()), 1, away, 0.5) is None


def test_waits_grow_and_are_spread_and_heed_the_server() -> None:
    reading = queues.stats()
    waits = [wait_before_repeat(reading, sent, StoreUnavailable("away"), 1.0) for sent in (1, 2, 3)]
    assert waits == [0.1, 0.2, 0.4]
    assert wait_before_repeat(reading, 1, StoreUnavailable("away"), 0.0) == 0.05
    assert (
        wait_before_repeat(reading, 1, AnswerLost("restarting", retry_after=30), 1.0)
        == LONGEST_WAIT_SECONDS
    )


def test_an_answer_that_is_not_ours_is_said_so() -> None:
    with pytest.raises(StoreUnsuitable, match="does not answer like a TaskForge server"):
        requests.answer(queues.stats(), 200, {}, b"<html>hello</html>")


def test_log_lines_are_read_with_all_they_have() -> None:
    wanted = jobs.logs("/jobs/1/logs", least=Level.WARN, after=3, limit=10, offset=0)
    at, execution = datetime(2030, 1, 1, tzinfo=UTC), uuid4()
    lines = [
        {"id": "4", "execution": execution, "level": "warn", "message": "hm", "logged_at": at}
        | {"metadata": {"n": 1}},
        {"id": "5", "execution": execution, "level": "error", "message": "!", "logged_at": at}
        | {"ended": "failed"},
    ]
    first, last = wanted.read(msgspec.json.encode({"items": lines}))
    assert (first.id, first.execution, first.level) == (4, execution, Level.WARN)
    assert (first.message, bytes(first.metadata or b""), first.ended) == ("hm", b'{"n":1}', None)
    assert last == Line(5, execution, Level.ERROR, "!", None, at, ExecutionStatus.FAILED)
