"""From problem documents back to the errors that an engine in this process raises, so that code
which catches those works here."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

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
from taskforge.domain.tenancy import QuotaExceeded

PREFIX = "urn:taskforge:problem:"
RETRY_SECONDS = 1.0


class AnswerLost(StoreUnavailable):
    """Whether the server did what was asked is not known: the connection broke, or the answer says
    nothing of it."""


class ServerFault(AnswerLost):
    """The server failed at this request; it may fail at it again."""


class WireFault(msgspec.Struct, frozen=True):
    pointer: str
    detail: str
    expected: str | None = None


class WireProblem(msgspec.Struct, frozen=True, kw_only=True):
    type: str = ""
    detail: str = ""
    errors: list[WireFault] = []
    context: dict[str, Any] = {}


_problem = msgspec.json.Decoder(WireProblem)


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> TaskForgeError:
    """What an answer of 300 or more means."""
    retry_after = _retry_after(headers)
    try:
        problem = _problem.decode(body)
    except msgspec.MsgspecError:
        problem = WireProblem()
    if problem.type.startswith(PREFIX):
        return error_in(problem, status, retry_after)
    # Something between us and the server answered, or it is no server of ours.
    if status == 408 or status >= 500:
        return AnswerLost(
            f"the server cannot be reached (status {status})", retry_after=retry_after
        )
    if status == 429:
        return Throttled(retry_after)
    if status in (301, 302, 307, 308) and "location" in headers:
        return StoreUnsuitable(
            f"the server is at {headers['location'].partition('/api/')[0]}; use that as the URL"
        )
    return StoreUnsuitable(f"the URL does not answer like a TaskForge server (status {status})")


def error_in(
    problem: WireProblem, status: int, retry_after: float = RETRY_SECONDS
) -> TaskForgeError:
    """The error behind a problem document; also behind one job's in the answer to many."""
    context, detail = problem.context, problem.detail
    match problem.type.removeprefix(PREFIX):
        case "invalid":
            return _invalid(problem)
        case "too-large" | "too-long":
            return Invalid("request", detail, "send less at a time")
        case "not-found":
            if "kind" not in context:
                return StoreUnsuitable(
                    f"the server does not know this request ({detail}); is it older than "
                    f"this client?"
                )
            return NotFound(
                str(context["kind"]), str(context.get("name", "")), nearest=context.get("nearest")
            )
        case "gone" if "job" in context:
            return Gone(UUID(context["job"]))
        case "gone":
            return EventsGone(str(context.get("cursor", "")))
        case "key-taken" if "job" in context:
            return KeyTaken(str(context.get("key", "")), UUID(context["job"]))
        case "queue-paused" if "queue" in context:
            return QueuePaused(str(context["queue"]))
        case "deregistered":
            return Deregistered(detail)
        case "lease-lost":
            return LeaseLost(detail)
        case "stale":
            return Stale(detail)
        case "conflict" | "ceiling" | "key-taken" | "queue-paused":
            return Conflict(detail)
        case "unauthenticated":
            return Unauthenticated(detail)
        case "forbidden":
            return Forbidden(detail)
        case "quota" if "quota" in context:
            return QuotaExceeded(str(context["quota"]), int(context.get("limit", 0)), retry_after)
        case "crowded":
            return Crowded(detail, int(context.get("limit", 0)), retry_after)
        case "quota" | "throttled":
            return Throttled(retry_after)
        case other:
            return _unserved(other, detail, status, retry_after)


def _unserved(kind: str, detail: str, status: int, retry_after: float) -> TaskForgeError:
    """What has nothing to do with what was asked."""
    match kind:
        case "store-unavailable":
            return AnswerLost(detail, retry_after=retry_after)
        case "store-unsuitable":
            return StoreUnsuitable(detail)
        case "too-slow" | "full":
            return StoreUnavailable(detail, retry_after=retry_after)
        case _ if status >= 500:
            return ServerFault(f"the server failed: {detail}", retry_after=retry_after)
        case _:
            return StoreUnsuitable(
                f"the server cannot serve this request ({detail}); is it older than this client?"
            )


def _invalid(problem: WireProblem) -> Invalid:
    if not problem.errors:
        return Invalid("request", problem.detail, "see the API document")
    first = problem.errors[0]
    return Invalid(_field(first.pointer), first.detail, first.expected or "see the API document")


def _field(pointer: str) -> str:
    """`#/settings/tags/0` as `settings.tags[0]`."""
    if pointer == "#":
        return "body"
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", pointer.removeprefix("#/").replace("/", "."))


def _retry_after(headers: Mapping[str, str]) -> float:
    value = headers.get("retry-after", "")
    return float(value) if value.isdigit() else RETRY_SECONDS
