"""Requests as values, and what their answers mean. Nothing here is sent: the async and the sync
transport do that, with one set of builders for both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from taskforge.client.problems import AnswerLost, error_of
from taskforge.domain.errors import StoreUnavailable, StoreUnsuitable, TaskForgeError

T = TypeVar("T")
ROOT = "/api/v1"
ANSWER_SECONDS = 30.0
REPEATS = 3
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class Request(Generic[T]):
    method: str
    path: str
    read: Callable[[bytes], T]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False  # doing it twice is the same as doing it once
    # how often it is sent again before the caller hears that the server is away
    repeats: int = REPEATS
    seconds: float = ANSWER_SECONDS  # how long the answer may take
    root: str = ROOT

    @property
    def target(self) -> str:
        """The path and the query, behind the server's address."""
        return self.root + self.path + (f"?{urlencode(self.query)}" if self.query else "")


def get(path: str, read: Callable[[bytes], T], **query: Any) -> Request[T]:
    return Request("GET", path, read, query=pairs(query), repeatable=True)


def post(
    path: str,
    read: Callable[[bytes], T],
    body: Any = None,
    *,
    repeatable: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Request[T]:
    encoded = (
        body if isinstance(body, bytes) else b"{}" if body is None else msgspec.json.encode(body)
    )
    return Request("POST", path, read, body=encoded, repeatable=repeatable, headers=headers or {})


class _Ready(msgspec.Struct):
    now: datetime


def now() -> Request[datetime]:
    """The store's clock; also whether server and store are there."""
    return Request("GET", "/readyz", lambda body: _ready(body).now, repeatable=True, root="")


def pairs(query: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What is not None, as text; lists name a parameter more than once."""
    lists = {
        name: value if isinstance(value, list | tuple) else [value] for name, value in query.items()
    }
    return tuple(
        (name, _text(one)) for name, values in lists.items() for one in values if one is not None
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Decodes an answer; fields that are not known here are newer than we are."""
    return msgspec.json.Decoder(kind).decode


_ready = reader(_Ready)


def nothing(_: bytes) -> None:
    return None


def answer(request: Request[T], status: int, headers: Mapping[str, str], body: bytes) -> T:
    """What the server said, or the error that it stands for. Names of headers are in lower case."""
    if not 200 <= status < 300:
        raise error_of(status, headers, body)
    try:
        return request.read(body)
    except msgspec.MsgspecError as error:
        raise StoreUnsuitable(
            f"the URL does not answer like a TaskForge server ({error})"
        ) from None


def wait_before_repeat(
    request: Request[Any], sent: int, error: TaskForgeError, chance: float
) -> float | None:
    """How long to wait before sending it again after so many tries; None if the caller should hear
    of the error. What never left can always be sent again; what may have been carried out only if
    twice is the same as once."""
    if not isinstance(error, StoreUnavailable) or sent > request.repeats:
        return None
    if isinstance(error, AnswerLost) and not request.repeatable:
        return None
    growing = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** (sent - 1))
    # A server that says when to come back (a restart, a store that is away) is taken at its word,
    # within reason.
    asked = min(error.asked_for, LONGEST_WAIT_SECONDS) if isinstance(error, AnswerLost) else 0.0
    return max(growing, asked) * (0.5 + chance / 2)
