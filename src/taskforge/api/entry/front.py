"""Before everything else: a request's id, what every answer carries, what is refused unread, and
the hot routes.

Enqueues and workers' calls are what a server mostly does. They are answered here, without the
framework in between: a POST of one job takes 165 µs of CPU instead of 353 (PostgreSQL, 32
connections, medians of 7 rounds). `routes/hot.py` describes them and declares their permission.
"""

import asyncio
import codecs
import contextlib
import re
import uuid
from collections.abc import Awaitable
from typing import Any

import msgspec
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from taskforge.api.entry import hot_routes
from taskforge.api.entry.bodies import BODY
from taskforge.api.entry.caller import CSRF_HEADER, Caller, check_csrf, credential_of, origin_of
from taskforge.api.entry.parameters import check_query
from taskforge.api.entry.problems import (
    MEDIA_TYPE,
    Full,
    HeadTooLong,
    Problem,
    TooLarge,
    TooSlow,
    problem_of,
)
from taskforge.api.entry.room import BodyPlace, BodyRoom
from taskforge.domain.access import Crowded, Unauthenticated, need
from taskforge.domain.addresses import find_client
from taskforge.domain.errors import Invalid
from taskforge.operations.limits.connection_limits import AddressShare
from taskforge.operations.platform import Platform

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024
BODY_SECONDS = 60.0
FULL_SECONDS = 2
_SANE = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_WITH_BODY = ("POST", "PUT", "PATCH")
_JSON, _FORM = b"application/json", b"application/x-www-form-urlencoded"
# Forms of pages without scripts. Another site can send such a form too; these two routes check that
# none did.
_FORMS = (("POST", "/login"), ("POST", "/logout"))
SECURITY: list[tuple[bytes, bytes]] = [
    (
        b"content-security-policy",
        (
            b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
            b"frame-ancestors 'none'; base-uri 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
]
_encode = msgspec.json.Encoder().encode


class Front:
    def __init__(self, app: ASGIApp, platform: Platform) -> None:
        self._app = app
        self._platform = platform
        self._proxies = platform.settings.proxies
        self._room = BodyRoom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if str(scope["type"]) != "http":
            await self._app(scope, receive, send)
            return
        values: Any = scope
        headers = dict(scope["headers"])
        identifier = _request_id(headers)
        values["request_id"] = identifier
        if self._proxies:
            await self._pass_on(values, headers, receive, send)
        else:
            await self._take(values, headers, receive, send)

    async def _pass_on(
        self, scope: Any, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        """A request that may come through a proxy: it is whose the proxy says, and takes a place of
        that address for as long as it lasts."""
        peer = scope["client"][0] if scope["client"] else ""
        client = find_client(peer, forwarded_of(scope), self._proxies)
        if client == peer:
            await self._take(scope, headers, receive, send)
            return
        scope["client"] = (client, 0)
        scope["share"] = share = self._platform.shares.take(client)
        if share is None:
            problem = problem_of(
                Crowded(
                    "your address has as many requests under way as is its share; try again soon",
                    self._platform.shares.of_address,
                    FULL_SECONDS,
                ),
                scope["request_id"],
            )
            marks = [*SECURITY, (b"retry-after", b"%d" % FULL_SECONDS)]
            await _send(send, problem.status, _encode(problem), MEDIA_TYPE, marks)
            return
        try:
            await self._take(scope, headers, receive, send)
        finally:
            share.release()

    async def _take(
        self, scope: Any, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        values: Any = scope
        identifier = values["request_id"]
        marks = [*SECURITY, (b"x-request-id", identifier.encode())]
        refused = _too_long(values, identifier) or _unread(
            values["method"], scope["path"], headers, identifier
        )
        if len(headers) != len(values["headers"]):
            refused = refused or _ambiguous(values, identifier)
        if refused is not None:
            await _send(send, refused.status, _encode(refused), MEDIA_TYPE, marks)
            return
        if values["method"] == "OPTIONS":
            # what the framework would answer names some methods only; 405 names them all
            values["method"] = "-"
        found = hot_routes.find(values["method"], scope["path"])
        if found is not None:
            place = BodyPlace(self._room, origin_of(scope))
            body = PatientBody(receive, place, checked=False)
            try:
                await self._answer(values, headers, body, send, marks, *found)
            finally:
                place.release()
            return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(mark for mark in marks if mark[0] not in present),
                ]
            await send(message)

        # what a route holds until its whole answer is sent, or nobody is there to get it
        with contextlib.ExitStack() as held:
            values["held"] = held
            place = BodyPlace(self._room, origin_of(scope))
            held.callback(place.release)
            await self._app(scope, PatientBody(receive, place, checked=True), send_marked)

    async def _answer(
        self,
        scope: Any,
        headers: dict[bytes, bytes],
        receive: Receive,
        send: Send,
        marks: list[tuple[bytes, bytes]],
        route: hot_routes.Quick,
        project: str | None,
    ) -> None:
        try:
            caller = await self._caller(scope, headers)
            need(caller.principal, route.permission)
            if scope["query_string"]:
                project = check_query(scope["query_string"], route.parameters).get(
                    "project", project
                )
            body = await _body(receive)
            key = (
                headers[b"idempotency-key"].decode("latin-1")
                if b"idempotency-key" in headers
                else None
            )
            acting = route.act(caller, project, body, key)
            made = await (_unless_gone(acting, receive) if route.waits else acting)
            answer = b"" if made is None else _encode(made)
        except CallerGone:
            return
        except Exception as error:  # noqa: BLE001 - the table knows what each is, and what is a fault
            problem = problem_of(error, scope["request_id"])
            if problem.retry_after:
                marks.append((b"retry-after", str(problem.retry_after).encode()))
            if problem.status == 401:
                marks.append((b"www-authenticate", b"Bearer"))
            await _send(send, problem.status, _encode(problem), MEDIA_TYPE, marks)
            return
        await _send(send, route.status, answer, "application/json", marks)

    async def _caller(self, scope: Any, headers: dict[bytes, bytes]) -> Caller:
        """The same as the guard before every other route."""
        gatekeeper = self._platform.gatekeeper
        credential, session = credential_of(headers)
        principal = gatekeeper.known(credential) or await gatekeeper.identify(credential)
        share: AddressShare | None = scope.get("share")
        if share is not None and principal.kind == "worker":
            share.belongs_to_worker()
        if session is not None:
            check_csrf(
                self._platform, session, headers.get(CSRF_HEADER.encode(), b"").decode("latin-1")
            )
        return Caller(
            principal, self._platform, origin_of(scope), scope["request_id"], credential, session
        )


async def full(scope: Scope, _receive: Receive, send: Send) -> None:
    """The application for whoever comes when all connections are taken."""
    identifier = _request_id(dict(scope["headers"]))
    problem = problem_of(
        Full("all connections of this server are taken; try again soon", retry_after=FULL_SECONDS),
        identifier,
    )
    marks = [
        *SECURITY,
        (b"x-request-id", identifier.encode()),
        (b"retry-after", b"%d" % FULL_SECONDS),
        (b"connection", b"close"),
    ]
    await _send(send, problem.status, _encode(problem), MEDIA_TYPE, marks)


class CallerGone(Exception):
    """The caller left before there was an answer."""


async def _unless_gone(acting: Awaitable[Any], receive: Receive) -> Any:
    """What comes of it, unless the caller leaves first: whoever waits for jobs and is gone must not
    get any."""
    task, leaving = asyncio.ensure_future(acting), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait([task, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise CallerGone
        return task.result()
    finally:
        leaving.cancel()
        task.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()


class PatientBody:
    """Receives a body, but not forever: whoever sends it drop by drop would hold a place that
    others need."""

    def __init__(self, receive: Receive, place: BodyPlace, *, checked: bool) -> None:
        """`checked`: what comes must be UTF-8, which the framework's own decoder takes for
        granted."""
        self._receive = receive
        self._place = place
        self._decoder = codecs.getincrementaldecoder("utf-8")() if checked else None
        self._until: float | None = None
        self._whole = False

    async def __call__(self) -> Any:
        if self._whole:
            return await self._receive()  # it says when the caller left, however long that takes
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._until):
                message: Any = await self._receive()
        except TimeoutError:
            raise TooSlow(
                f"the body did not come within {BODY_SECONDS:.0f} s; send it faster, or less of it"
            ) from None
        if message["type"] == "http.disconnect":
            raise Invalid(BODY, "ended before its time", "send all of it")
        self._whole = not message.get("more_body", False)
        self._place.add(len(message.get("body", b"")))
        if self._decoder is not None:
            try:
                self._decoder.decode(message.get("body", b""), self._whole)
            except UnicodeError:
                raise Invalid(BODY, "is not UTF-8", "send valid JSON in UTF-8") from None
        return message


async def _body(receive: Receive) -> bytes:
    message: Any = await receive()
    if not message.get("more_body"):
        whole: bytes = message.get("body", b"")
        if len(whole) <= MAX_BODY_BYTES:
            return whole
    parts, size = [message.get("body", b"")], len(message.get("body", b""))
    while message.get("more_body") and size <= MAX_BODY_BYTES:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if size > MAX_BODY_BYTES:
        raise _too_large()
    return b"".join(parts)


def _unread(method: str, path: str, headers: dict[bytes, bytes], identifier: str) -> Problem | None:
    """What is refused by its head alone."""
    if int(headers.get(b"content-length", b"0") or 0) > MAX_BODY_BYTES:
        return problem_of(_too_large(), identifier)
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


def _too_long(scope: Any, identifier: str) -> Problem | None:
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


def _ambiguous(scope: Any, identifier: str) -> Problem | None:
    """Two credentials: a proxy before us may have looked at the one, and we at the other."""
    names = [name for name, _ in scope["headers"]]
    return (
        problem_of(Unauthenticated("send one Authorization header"), identifier)
        if names.count(b"authorization") > 1
        else None
    )


def forwarded_of(scope: Any) -> list[str]:
    return [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]


def _too_large() -> TooLarge:
    return TooLarge(f"the body is larger than {MAX_BODY_BYTES // 2**20} MiB; send less at a time")


async def _send(
    send: Send, status: int, body: bytes, media_type: str, marks: list[tuple[bytes, bytes]]
) -> None:
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        *marks,
    ]
    start: Any = {"type": "http.response.start", "status": status, "headers": headers}
    end: Any = {"type": "http.response.body", "body": body, "more_body": False}
    await send(start)
    await send(end)


def _request_id(headers: dict[bytes, bytes]) -> str:
    """The caller's own, if it is sane; else a new one."""
    given = headers.get(b"x-request-id")
    return given.decode() if given is not None and _SANE.fullmatch(given) else uuid.uuid4().hex
