"""Before everything else: a request's id, what every answer carries, what is refused unread, and
the hot routes.

Enqueues and workers' calls are what a server mostly does. They are answered here, without the
framework in between: a POST of one job takes 165 µs of CPU instead of 353 (PostgreSQL, 32
connections, medians of 7 rounds). `routes/hot.py` describes them and declares their permission.
"""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

import msgspec
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from taskforge.api.entry import hot_routes
from taskforge.api.entry.caller import CSRF_HEADER, Caller, check_csrf, credential_of, origin_of
from taskforge.api.entry.heads import (
    find_request_id,
    forwarded_of,
    refuse_ambiguous,
    refuse_long_head,
    refuse_unread,
    trace_in,
)
from taskforge.api.entry.parameters import check_query
from taskforge.api.entry.patient_body import PatientBody, read_body
from taskforge.api.entry.problems import (
    MEDIA_TYPE,
    Full,
    problem_of,
)
from taskforge.api.entry.room import BodyPlace, BodyRoom
from taskforge.domain.access import Crowded, need
from taskforge.domain.addresses import find_client
from taskforge.operations.limits.connection_limits import AddressShare
from taskforge.operations.platform import Platform
from taskforge.telemetry.tracing import inherited

FULL_SECONDS = 2
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
        identifier = find_request_id(headers)
        values["request_id"] = identifier
        if b"traceparent" in headers:
            inherited.set(trace_in(headers))
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
        refused = refuse_long_head(values, identifier) or refuse_unread(
            values["method"], scope["path"], headers, identifier
        )
        if len(headers) != len(values["headers"]):
            refused = refused or refuse_ambiguous(values, identifier)
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

        place = BodyPlace(self._room, origin_of(scope))

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                place.end()
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(mark for mark in marks if mark[0] not in present),
                ]
            await send(message)

        # what a route holds until its whole answer is sent, or nobody is there to get it
        with contextlib.ExitStack() as held:
            values["held"] = held
            held.callback(place.release)
            await self._app(scope, PatientBody(receive, place, checked=True), send_marked)

    async def _answer(
        self,
        scope: Any,
        headers: dict[bytes, bytes],
        receive: PatientBody,
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
            body = await read_body(receive)
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
        receive.place.end()
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
    identifier = find_request_id(dict(scope["headers"]))
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
