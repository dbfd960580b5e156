"""What is known of a request by its head alone: its id, whom a proxy acts for, and what is refused
before its body is read."""

import re
import uuid
from typing import Any

from taskforge.api.entry.patient_body import is_too_large, too_large
from taskforge.api.entry.problems import HeadTooLong, Problem, problem_of
from taskforge.domain.access import Unauthenticated
from taskforge.domain.trace_text import trace_of

MAX_HEAD_BYTES = 64 * 1024
_SANE = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_WITH_BODY = ("POST", "PUT", "PATCH")
_JSON, _FORM = b"application/json", b"application/x-www-form-urlencoded"
# Forms of pages without scripts. Another site can send such a form too; these two routes check that
# none did.
_FORMS = (("POST", "/login"), ("POST", "/logout"))


def find_request_id(headers: dict[bytes, bytes]) -> str:
    """The caller's own, if it is sane; else a new one."""
    given = headers.get(b"x-request-id")
    return given.decode() if given is not None and _SANE.fullmatch(given) else uuid.uuid4().hex


def trace_in(headers: dict[bytes, bytes]) -> str | None:
    """The trace that the caller is in, if it says so."""
    parent, state = (
        headers.get(name, b"").decode("latin-1") for name in (b"traceparent", b"tracestate")
    )
    found = trace_of(parent, state)
    return None if found is None else found.write()


def forwarded_of(scope: Any) -> list[str]:
    return [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]


def refuse_unread(
    method: str, path: str, headers: dict[bytes, bytes], identifier: str
) -> Problem | None:
    """What is refused by its head alone."""
    if is_too_large(int(headers.get(b"content-length", b"0") or 0)):
        return problem_of(too_large(), identifier)
    if method not in _WITH_BODY:
        return None
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    expected = _FORM if (method, path) in _FORMS else _JSON
    if encoding != b"identity" or (kind and kind != expected):
        detail = f"send the body as {expected.decode()}, uncompressed"
        return Problem(
            type="urn:taskforge:problem:media-type",
            title="Media type not supported",
            status=415,
            detail=detail,
            request_id=identifier,
        )
    return None


def refuse_long_head(scope: Any, identifier: str) -> Problem | None:
    """Heads that came in one piece; longer ones do not get here."""
    size = (
        len(scope["query_string"])
        + len(scope["path"])
        + sum(len(name) + len(value) for name, value in scope["headers"])
    )
    if size <= MAX_HEAD_BYTES:
        return None
    return problem_of(
        HeadTooLong(f"the request's head is longer than {MAX_HEAD_BYTES // 1024} KiB"), identifier
    )


def refuse_ambiguous(scope: Any, identifier: str) -> Problem | None:
    """Two credentials: a proxy before us may have looked at the one, and we at the other."""
    names = [name for name, _ in scope["headers"]]
    return (
        problem_of(Unauthenticated("send one Authorization header"), identifier)
        if names.count(b"authorization") > 1
        else None
    )
