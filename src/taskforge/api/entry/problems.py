"""One table from what went wrong to the answer: problem+json (RFC 9457) with a pointer to each
field at fault."""

import logging
import math
import re
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec

from taskforge.api.entry.bodies import BODY
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
    TaskForgeError,
)
from taskforge.domain.tenancy import CeilingReached, QuotaExceeded

logger = logging.getLogger("taskforge.api")
MEDIA_TYPE = "application/problem+json"
SAFE = ("GET", "HEAD", "OPTIONS")


class Fault(msgspec.Struct, frozen=True):
    pointer: str  # a JSON pointer into the body, or the name of a parameter
    detail: str
    expected: str | None = None


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] = []
    retry_after: int | None = None
    context: dict[str, str | int] = {}
    """What the error is about, in parts: such as the kind and the name of what was not found"""


class TooLarge(TaskForgeError):
    pass


class TooSlow(TaskForgeError):
    """The body did not come in time."""


class HeadTooLong(TaskForgeError):
    """Address and headers are longer than anyone needs."""


class Full(StoreUnavailable):
    """The server holds as many connections as it may."""


# The first kind that an error is counts.
TABLE: list[tuple[type[Exception], int, str, str]] = [
    (Unauthenticated, 401, "unauthenticated", "No valid credential"),
    (Forbidden, 403, "forbidden", "Not allowed"),
    (Crowded, 429, "crowded", "Too many at once"),
    (Throttled, 429, "throttled", "Too many tries"),
    (QuotaExceeded, 429, "quota", "Quota used up"),
    (Stale, 412, "stale", "Changed meanwhile"),
    (TooLarge, 413, "too-large", "Request too large"),
    (TooSlow, 408, "too-slow", "Request too slow"),
    (HeadTooLong, 431, "too-long", "Head too long"),
    (Invalid, 422, "invalid", "A value breaks a rule"),
    (NotFound, 404, "not-found", "Not found"),
    (Gone, 410, "gone", "Older than what is kept"),
    (EventsGone, 410, "gone", "Older than what is kept"),
    (KeyTaken, 409, "key-taken", "Idempotency key used for another body"),
    (QueuePaused, 409, "queue-paused", "Queue paused"),
    (Deregistered, 409, "deregistered", "Deregistered"),
    (LeaseLost, 409, "lease-lost", "Lease lost"),
    (CeilingReached, 409, "ceiling", "Ceiling reached"),
    (Conflict, 409, "conflict", "Does not fit the present state"),
    (Full, 503, "full", "The server is full"),
    (StoreUnavailable, 503, "store-unavailable", "The store is away"),
    (StoreUnsuitable, 503, "store-unsuitable", "The store cannot serve"),
]
_TITLES = {
    400: ("malformed", "Malformed request"),
    404: ("not-found", "Not found"),
    405: ("method", "Method not allowed"),
    413: ("too-large", "Request too large"),
    415: ("media-type", "Media type not supported"),
}
DOCUMENTED = {
    400: "The request cannot be read",
    401: "No valid credential",
    403: "The credential does not allow this",
    404: "There is no such thing",
    408: "The body did not come in time",
    409: "It does not fit the present state",
    410: "It is older than what is kept",
    412: "If-Match names an older version",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "A value breaks a rule; `errors` points to it",
    429: "A quota is used up, there were too many tries, or too many streams or claims wait; see "
    "Retry-After",
    500: "A fault of the server's",
    503: "The store is away, or the server has no connection to spare; see Retry-After",
}


def responses(*statuses: int) -> dict[int, ResponseSpec]:
    """What an operation may answer besides success, for the API document."""
    return {
        status: ResponseSpec(
            Problem, description=DOCUMENTED[status], media_type=MEDIA_TYPE, generate_examples=False
        )
        for status in statuses
    }


def problem_of(error: Exception, request_id: str) -> Problem:
    for kind, status, slug, title in TABLE:
        if isinstance(error, kind):
            retry = getattr(error, "retry_after", None)
            faults = (
                [Fault(pointer_of(error.field), error.problem, error.expected)]
                if isinstance(error, Invalid)
                else []
            )
            return Problem(
                type=f"urn:taskforge:problem:{slug}",
                title=title,
                status=status,
                detail=_detail(error),
                request_id=request_id,
                errors=faults,
                retry_after=None if retry is None else max(1, math.ceil(retry)),
                context=context_of(error),
            )
    if isinstance(error, RecursionError):
        return problem_of(
            Invalid("body", "is nested too deeply", "use a flatter structure"), request_id
        )
    if isinstance(error, ValidationException):
        return _validation(error, request_id)
    if isinstance(error, HTTPException) and error.status_code < 500:
        slug, title = _TITLES.get(error.status_code, ("request", "The request cannot be served"))
        return Problem(
            type=f"urn:taskforge:problem:{slug}",
            title=title,
            status=error.status_code,
            detail=_plain(error.detail),
            request_id=request_id,
        )
    # The cause goes to the log, with the id that the caller has; what it says may hold what nobody
    # else should read.
    logger.error("request %s failed: %s", request_id, type(error).__name__, exc_info=error)
    detail = "this is a fault of the server's; its log has the cause under this request's id"
    return Problem(
        type="urn:taskforge:problem:fault",
        title="Fault",
        status=500,
        detail=detail,
        request_id=request_id,
    )


def _detail(error: Exception) -> str:
    """What the database itself said has names of hosts, users and databases in it: that is for the
    log alone."""
    if isinstance(error, StoreUnavailable) and error.__cause__ is not None:
        return "it is away, or refuses for now; the server's log says why"
    return str(error)


def context_of(error: Exception) -> dict[str, str | int]:
    """What it takes to raise the same error on the other side of the wire."""
    match error:
        case NotFound():
            near = {} if error.nearest is None else {"nearest": error.nearest}
            return {"kind": error.kind, "name": error.name, **near}
        case Gone():
            return {"job": str(error.job)}
        case EventsGone():
            return {"cursor": error.cursor}
        case KeyTaken():
            return {"key": error.key, "job": str(error.job)}
        case QueuePaused():
            return {"queue": error.queue}
        case QuotaExceeded():
            return {"quota": error.quota, "limit": error.limit}
        case CeilingReached():
            return {"ceiling": error.ceiling, "limit": error.limit}
        case Crowded():
            return {"limit": error.limit}
        case _:
            return {}


def render(problem: Problem) -> Response[bytes]:
    headers = {"Retry-After": str(problem.retry_after)} if problem.retry_after else {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        msgspec.json.encode(problem),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def answer(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    scope: Any = request.scope
    problem = problem_of(error, scope.get("request_id", "-"))
    if request.method in SAFE:
        # it has no body to point into: what is wrong is a parameter
        named = [
            Fault(one.pointer.removeprefix("#/"), one.detail, one.expected)
            for one in problem.errors
        ]
        problem = msgspec.structs.replace(problem, errors=named)
    response = render(problem)
    if isinstance(error, HTTPException) and error.headers:
        allowed = {
            name: value.split(", ")
            for name, value in error.headers.items()
            if name.lower() == "allow"
        }
        response.headers.update(
            {name: ", ".join(sorted(set(ones) - {"OPTIONS"})) for name, ones in allowed.items()}
        )
    return response


def pointer_of(field: str) -> str:
    """`settings.tags[0]` as `#/settings/tags/0`, and the body as `#`."""
    if field == BODY:
        return "#"
    return "#/" + re.sub(r"\[(\d+)\]", r".\1", field).lstrip(".").replace(".", "/")


def _validation(error: ValidationException, request_id: str) -> Problem:
    faults = []
    for one in error.extra if isinstance(error.extra, list) else []:
        name = str(one.get("key", ""))
        if name == "data":
            # Bodies are decoded before the framework looks at them: what it misses is a body at all
            faults.append(Fault("#", "is missing", "send a body of JSON"))
            continue
        faults.append(Fault(name, str(one.get("message", "is not valid")), one.get("expected")))
    told = [
        f"{one.pointer}: {one.detail}" + (f"; {one.expected}" if one.expected else "")
        for one in faults
    ]
    return Problem(
        type="urn:taskforge:problem:invalid",
        title="A value breaks a rule",
        status=422,
        detail="; ".join(told) or _plain(error.detail),
        request_id=request_id,
        errors=faults,
    )


def _plain(detail: str) -> str:
    return re.sub(r"^\d{3}: ", "", detail)
