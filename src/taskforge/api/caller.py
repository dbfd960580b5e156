"""Whoever makes a request, and what they may reach. Each route declares its permission; a route that does not cannot be built."""

from typing import Any
from uuid import UUID

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from taskforge.api.backend import Backend
from taskforge.domain.access import Forbidden, Permission, Principal, Unauthenticated, need
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, NotFound, TaskForgeError, nearest
from taskforge.domain.job import Job
from taskforge.domain.queue import Queue
from taskforge.domain.tenancy import Project
from taskforge.domain.worker import Worker
from taskforge.operations.secret import SESSION

COOKIE = "taskforge_session"
CSRF_HEADER = "x-csrf-token"
SAFE = ("GET", "HEAD", "OPTIONS")
PUBLIC = "public"  # what a route declares that anyone may call
ANYONE = "anyone"  # what a route declares that any valid credential may call


class Visitor(msgspec.Struct, frozen=True):
    """A request before it is known whose it is."""

    backend: Backend
    origin: str
    request: str

    def note_for(self, action: str) -> Any:
        """A maker of audit notes for someone who is about to be known."""
        return lambda email, organization: Note(f"user:{email}", action, organization, self.origin, self.request)


class Caller(msgspec.Struct, frozen=True):
    principal: Principal
    backend: Backend
    origin: str
    request: str
    credential: str
    session: str | None = None

    def note(self, action: str) -> Note:
        return Note(self.principal.label, action, self.principal.organization, self.origin, self.request)

    def may(self, permission: Permission) -> bool:
        return permission in self.principal.permissions

    async def project(self, name: str | None) -> Project:
        """Where something new goes."""
        return await self.backend.tenants.meant(self.principal, name)

    async def projects(self, name: str | None) -> tuple[int, ...]:
        """What a listing covers: the named project, or everything that the caller may touch."""
        if name is None:
            return self.principal.projects
        return ((await self.backend.tenants.project(self.principal, name)).number,)

    async def project_names(self, *among: int | None) -> dict[int, str]:
        """Of the organization; `among` them are these, which may be newer than what the caller may touch."""
        mine = await self.backend.tenants.projects_of(self.principal.organization, *among)
        return {one.number: one.name for one in mine}

    async def job(self, identifier: UUID) -> Job:
        found = await self.backend.engine.get(self.principal.projects, [identifier])
        if not found:
            raise self.absent("job", identifier, bool(await self.backend.engine.get(await self._others(), [identifier])))
        return found[0]

    async def queue(self, name: UUID | str) -> Queue:
        """By id, or by name among those that the caller may touch. No queue is named like the id of another."""
        identifier = _id_in(name)
        queues = await self.backend.engine.queues(self.principal.projects)
        found = [one for one in queues if one.id == identifier] or [one for one in queues if one.name == name]
        if len(found) > 1:
            raise Invalid("queue", f"{name!r} is in {len(found)} of your projects", "name it by its id")
        if found:
            return found[0]
        if identifier is None:
            raise NotFound("queue", str(name), nearest=nearest(str(name), [one.name for one in queues]))
        others = await self.backend.engine.queues(await self._others())
        raise self.absent("queue", identifier, any(one.id == identifier for one in others))

    async def worker(self, identifier: UUID) -> Worker:
        """The newest life of it."""
        for worker in reversed(await self.backend.engine.workers(self.principal.projects)):
            if worker.id == identifier:
                return worker
        others = await self.backend.engine.workers(await self._others())
        raise self.absent("worker", identifier, any(one.id == identifier for one in others))

    def absent(self, kind: str, identifier: UUID, elsewhere: bool) -> TaskForgeError:
        """By id, what belongs to others is forbidden; what nobody has is not found."""
        if elsewhere:
            return Forbidden(f"{kind} {identifier} is not one that {self.principal.label} may touch")
        return NotFound(kind, str(identifier))

    async def _others(self) -> tuple[int, ...]:
        return await self.backend.tenants.others(self.principal)


def _id_in(name: UUID | str) -> UUID | None:
    try:
        return UUID(str(name))
    except ValueError:
        return None


async def authorize(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """The guard before every route: nobody we know, 401; not allowed, 403."""
    permission = handler.opt["permission"]
    if permission == PUBLIC:
        return
    backend: Backend = connection.app.state.backend
    credential, session = credential_of(dict(connection.scope["headers"]))
    principal = await backend.gatekeeper.identify(credential)
    if session is not None and connection.scope.get("method") not in SAFE:
        check_csrf(backend, session, connection.headers.get(CSRF_HEADER, ""))
    if permission != ANYONE:
        need(principal, permission)
    scope: Any = connection.scope
    scope["caller"] = Caller(principal, backend, origin_of(scope), scope["request_id"], credential, session)


def credential_of(headers: dict[bytes, bytes]) -> tuple[str, str | None]:
    """The credential, and the session if it is one that a browser sends by itself. A header always goes before a cookie."""
    header = headers.get(b"authorization")
    if header is not None:
        if header[:7].lower() != b"bearer ":
            raise Unauthenticated
        return header[7:].strip().decode("latin-1"), None
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value.startswith(SESSION):  # browsers send it by themselves: no place for a key or a token
            return value, value
    raise Unauthenticated


def check_csrf(backend: Backend, session: str, token: str) -> None:
    """A browser sends the cookie also when another site asks it to: only a page of ours knows the token."""
    if not backend.accounts.fits_csrf(session, token):
        raise Forbidden(f"a change made with a session needs its token in the header {CSRF_HEADER}; GET /api/v1/session has it")


def provide_caller(request: Request[Any, Any, Any]) -> Caller:
    scope: Any = request.scope
    caller: Caller = scope["caller"]
    return caller


def provide_visitor(request: Request[Any, Any, Any]) -> Visitor:
    scope: Any = request.scope
    return Visitor(request.app.state.backend, origin_of(scope), scope["request_id"])


def origin_of(scope: Any) -> str:
    client = scope.get("client")
    return client[0] if client else "-"
