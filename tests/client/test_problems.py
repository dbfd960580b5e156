"""Every error that the server can answer with is the same error again on this side."""

from uuid import UUID

import msgspec
import pytest

from taskforge.api.entry.problems import TABLE, Full, HeadTooLong, TooLarge, TooSlow, problem_of
from taskforge.client.problems import AnswerLost, ServerFault, error_of
from taskforge.domain.access import Crowded, Forbidden, Throttled, Unauthenticated
from taskforge.domain.errors import (
    Conflict,
    Deregistered,
    EventsGone,
    Gone,
    Invalid,
    KeyTaken,
    LeaseLost,
    NotFound,
    QueuePaused,
    Stale,
    StoreUnavailable,
    StoreUnsuitable,
)
from taskforge.domain.tenancy import CeilingReached, QuotaExceeded

JOB = UUID("01a1df55-6bec-740e-889d-515bbf000000")
SAME: list[Exception] = [
    Unauthenticated(),
    Forbidden("this needs the permission job:write"),
    Throttled(60),
    Crowded(
        "key:tfk_1 has 50 streams of events open on this server, which is the limit; end one first",
        50,
    ),
    QuotaExceeded("jobs_per_minute", 100, 12),
    Invalid("settings.tags[0]", "has 0 characters", "use 1 to 100 characters"),
    NotFound("queue", "mial", nearest="mail"),
    NotFound("job", str(JOB)),
    Gone(JOB),
    EventsGone("12.3"),
    KeyTaken("k1", JOB),
    QueuePaused("mail"),
    LeaseLost("the lease ran out; register again"),
    Deregistered("worker 'w' was deregistered"),
    Stale("the assignment was changed since it was read; read it again"),
    Conflict("job is running"),
    StoreUnavailable("the store is away", retry_after=3),
    StoreUnsuitable("the schema is newer"),
]
OTHER: list[tuple[Exception, type[Exception]]] = [
    (CeilingReached("queues", 3), Conflict),
    (TooLarge("the body is larger than 8 MiB"), Invalid),
    (HeadTooLong("the head is longer than 64 KiB"), Invalid),
    (Full("all 2,000 connections are taken"), StoreUnavailable),
    (TooSlow("the body did not come"), StoreUnavailable),
]


def _through(error: Exception) -> Exception:
    problem = problem_of(error, "r")
    headers = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
    return error_of(problem.status, headers, msgspec.json.encode(problem))


def test_every_row_of_the_table_is_tried() -> None:
    tried = {type(error) for error in SAME} | {type(error) for error, _ in OTHER}
    assert {kind for kind, *_ in TABLE} <= tried


@pytest.mark.parametrize("error", SAME, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_it_was(error: Exception) -> None:
    found = _through(error)
    assert isinstance(found, type(error))
    assert str(found) == str(error)
    known = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    assert {name: getattr(found, name) for name in known} == known


@pytest.mark.parametrize(
    ("error", "kind"), OTHER, ids=lambda one: getattr(one, "__name__", type(one).__name__)
)
def test_what_no_engine_raises_becomes_what_one_would(
    error: Exception, kind: type[Exception]
) -> None:
    found = _through(error)
    assert type(found) is kind
    assert str(error) in str(found)


def test_a_fault_of_the_servers_is_told_apart() -> None:
    found = _through(RuntimeError("a secret of the server's"))
    assert isinstance(found, ServerFault)
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (502, {}, AnswerLost),
        (503, {"retry-after": "7"}, AnswerLost),
        (500, {}, AnswerLost),
        (429, {"retry-after": "9"}, Throttled),
        (404, {}, StoreUnsuitable),
        (308, {"location": "https://jobs.example.com/api/v1/jobs"}, StoreUnsuitable),
    ],
)
def test_answers_of_others_on_the_way(
    status: int, headers: dict[str, str], kind: type[Exception]
) -> None:
    found = error_of(status, headers, b"<html>not ours</html>")
    assert type(found) is kind
    if "retry-after" in headers:
        assert found.retry_after == float(headers["retry-after"])  # type: ignore[attr-defined]
    if "location" in headers:
        assert "https://jobs.example.com;" in str(found)


def test_a_404_for_a_path_that_the_server_does_not_have_says_so() -> None:
    body = (
        b'{"type": "urn:taskforge:problem:not-found", "status": 404, "detail": "Not Found", '
        b'"request_id": "r"}'
    )
    assert isinstance(error_of(404, {}, body), StoreUnsuitable)
