"""Whoever makes a request, and what they may reach. Each route declares its permission; a route
that does not cannot be built."""

from typing import Any
from uuid import UUID

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from taskforge.api.entry.problems import SAFE
from taskforge.domain.access import Forbidden, Permission, Principal, Unauthenticated, need
from taskforge.domain.alert import AlertRule
from taskforge.domain.audit import Note
from taskforge.domain.failure_group import FailureGroup
from taskforge.domain.job import StoredJob
from taskforge.domain.job_parts import WHOLE, Parts
from taskforge.domain.queue import Queue
from taskforge.domain.schedule import Schedule
from taskforge.domain.tenancy import Project
from taskforge.domain.webhook import Webhook
from taskforge.domain.worker import Worker
from taskforge.operations.access.secret import SESSION
from taskforge.operations.lookup import (
    find_alert_rule,
    find_failure_group,
    find_job,
    find_queue,
    find_schedule,
    find_webhook,
    find_worker,
)
from taskforge.operations.platform import Platform

COOKIE = "taskforge_session"
BROWSER_COOKIE = "taskforge_browser"
CSRF_HEADER = "x-csrf-token"
PUBLIC = "public"  # what a route declares that anyone may call
ANYONE = "anyone"  # what a route declares that any valid credential may call


class Visitor(msgspec.Struct, frozen=True):
    """A request before it is known whose it is."""

    platform: Platform
    origin: str
    request: str
    browser: str = ""  # what a browser that logged in before sends along

    def note_for(self, action: str) -> Any:
        """A maker of audit notes for someone who is about to be known."""
        return lambda email, organization: Note(
            f"user:{email}", action, organization, self.origin, self.request
        )


class Caller(msgspec.Struct, frozen=True):
    principal: Principal
    platform: Platform
    origin: str
    request: str
    credential: str
    session: str | None = None

    def note(self, action: str) -> Note:
        return Note(
            self.principal.label, action, self.principal.organization, self.origin, self.request
        )

    def may(self, permission: Permission) -> bool:
        return permission in self.principal.permissions

    async def project(self, name: str | None) -> Project:
        """Where something new goes."""
        return await self.platform.tenants.meant(self.principal, name)

    async def projects(self, name: str | None) -> tuple[int, ...]:
        """What a listing covers: the named project, or everything that the caller may touch."""
        if name is None:
            return self.principal.projects
        return ((await self.platform.tenants.project(self.principal, name)).number,)

    async def project_names(self, *among: int | None) -> dict[int, str]:
        """Of the organization; `among` them are these, which may be newer than what the caller may
        touch."""
        mine = await self.platform.tenants.projects_of(self.principal.organization, *among)
        return {one.number: one.name for one in mine}

    async def job(self, identifier: UUID, parts: Parts = WHOLE) -> StoredJob:
        return await find_job(self.platform, self.principal, identifier, parts)

    async def queue(self, name: UUID | str) -> Queue:
        """By id or by name."""
        return await find_queue(self.platform, self.principal, name)

    async def schedule(self, name: str) -> Schedule:
        """By id or by name."""
        return await find_schedule(self.platform, self.principal, name)

    async def alert_rule(self, name: str) -> AlertRule:
        """By id or by name."""
        return await find_alert_rule(self.platform, self.principal, name)

    async def webhook(self, name: str) -> Webhook:
        """By id or by name."""
        return await find_webhook(self.platform, self.principal, name)

    async def failure_group(self, identifier: UUID) -> FailureGroup:
        return await find_failure_group(self.platform, self.principal, identifier)

    async def worker(self, identifier: UUID) -> Worker:
        return await find_worker(self.platform, self.principal, identifier)


async def authorize(
    connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
) -> None:
    """The guard before every route: nobody we know, 401; not allowed, 403."""
    permission = handler.opt["permission"]
    if permission == PUBLIC:
        return
    platform: Platform = connection.app.state.platform
    credential, session = credential_of(dict(connection.scope["headers"]))
    principal = await platform.gatekeeper.identify(credential)
    if session is not None and connection.scope.get("method") not in SAFE:
        check_csrf(platform, session, connection.headers.get(CSRF_HEADER, ""))
    if permission != ANYONE:
        need(principal, permission)
    scope: Any = connection.scope
    scope["caller"] = Caller(
        principal, platform, origin_of(scope), scope["request_id"], credential, session
    )


def credential_of(headers: dict[bytes, bytes]) -> tuple[str, str | None]:
    """The credential, and the session if it is one that a browser sends by itself. A header always
    goes before a cookie."""
    header = headers.get(b"authorization")
    if header is not None:
        if header[:7].lower() != b"bearer ":
            raise Unauthenticated
        return header[7:].strip().decode("latin-1"), None
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        # browsers send it by themselves: no place for a key or a token
        if name == COOKIE and value.startswith(SESSION):
            return value, value
    raise Unauthenticated


def check_csrf(platform: Platform, session: str, token: str) -> None:
    """A browser sends the cookie also when another site asks it to: only a page of ours knows the
    token."""
    if not platform.accounts.fits_csrf(session, token):
        raise Forbidden(
            f"a change made with a session needs its token in the header {CSRF_HEADER}; GET "
            f"/api/v1/session has it"
        )


def provide_caller(request: Request[Any, Any, Any]) -> Caller:
    scope: Any = request.scope
    caller: Caller = scope["caller"]
    return caller


def provide_visitor(request: Request[Any, Any, Any]) -> Visitor:
    scope: Any = request.scope
    browser = request.cookies.get(BROWSER_COOKIE, "")
    return Visitor(request.app.state.platform, origin_of(scope), scope["request_id"], browser)


def origin_of(scope: Any) -> str:
    client = scope.get("client")
    return client[0] if client else "-"
