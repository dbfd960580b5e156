"""Logging in and out: session cookies for the dashboard, access and refresh tokens for programs,
passwords."""

from uuid import UUID

import msgspec
from litestar import Response, delete, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import JSONBody

from taskforge.api.entry.caller import ANYONE, BROWSER_COOKIE, COOKIE, PUBLIC, Caller, Visitor
from taskforge.api.entry.problems import responses
from taskforge.api.schema.values import Time
from taskforge.domain.access import Forbidden
from taskforge.domain.audit import Note
from taskforge.operations.access.accounts import (
    BROWSER_SECONDS,
    SESSION_SECONDS,
    IssuedTokens,
    Session,
)
from taskforge.operations.platform import Platform


class Login(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    email: str
    password: str
    organization: str | None = None
    """For members of several: the name of the one meant"""


class LoginLink(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    token: str


class RefreshBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    refresh_token: str


class PasswordBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    new_password: str
    current_password: str = ""


class ResetBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    token: str
    new_password: str


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """`csrf_token` goes with every change that is made with the cookie, in the header
    X-CSRF-Token."""

    email: str
    organization: str
    expires_at: Time
    csrf_token: str


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    id: UUID
    label: str
    organization: str
    projects: list[str]
    permissions: list[str]
    role: str | None
    csrf_token: str | None


@post("/session", permission=PUBLIC, tags=["Access"], responses=responses(401, 429))
async def log_in(visitor: NamedDependency[Visitor], data: JSONBody[Login]) -> Response[SessionView]:
    """Log in with a password; the session comes as a cookie. At most five tries a minute."""
    user, member = await visitor.platform.accounts.check(
        data.email, data.password, data.organization, visitor.origin, visitor.browser
    )
    note = visitor.note_for("session.create")(user.email, member.organization)
    return await _with_cookie(
        visitor, await visitor.platform.accounts.begin_session(user, member.organization, note)
    )


@post("/session/link", permission=PUBLIC, tags=["Access"], responses=responses(401))
async def log_in_by_link(
    visitor: NamedDependency[Visitor], data: JSONBody[LoginLink]
) -> Response[SessionView]:
    """Log in with a one-time token, such as the one that the first start prints."""
    session = await visitor.platform.accounts.session_by_link(
        data.token, visitor.note_for("session.create")
    )
    return await _with_cookie(visitor, session)


@get("/session", permission=ANYONE, tags=["Access"])
async def who_am_i(caller: NamedDependency[Caller]) -> WhoAmI:
    """Whom your credential stands for, and what it may do."""
    principal = caller.principal
    names = await caller.project_names()
    return WhoAmI(
        kind=principal.kind,
        id=principal.id,
        label=principal.label,
        organization=(await caller.platform.tenants.organization(principal.organization)).name,
        projects=sorted(names[number] for number in principal.projects if number in names),
        permissions=sorted(principal.permissions),
        role=None if principal.role is None else principal.role.value,
        csrf_token=None
        if caller.session is None
        else caller.platform.accounts.csrf_token(caller.session),
    )


@delete("/session", permission=ANYONE, tags=["Access"])
async def log_out(caller: NamedDependency[Caller]) -> Response[None]:
    """End the session of the cookie that comes with the request."""
    if caller.session is None:
        raise Forbidden("there is no session to end: the request came with a key or token")
    await caller.platform.accounts.end_session(caller.session, caller.note("session.delete"))
    response: Response[None] = Response(None, status_code=204)
    response.delete_cookie(COOKIE, path="/")
    return response


@post("/tokens", permission=PUBLIC, tags=["Access"], responses=responses(401, 429))
async def create_tokens(visitor: NamedDependency[Visitor], data: JSONBody[Login]) -> IssuedTokens:
    """An access token for ten minutes and a refresh token for more. At most five tries a minute."""
    user, member = await visitor.platform.accounts.check(
        data.email, data.password, data.organization, visitor.origin, visitor.browser
    )
    note: Note = visitor.note_for("token.create")(user.email, member.organization)
    return await visitor.platform.accounts.grant(user, member.organization, note)


@post("/tokens/refresh", permission=PUBLIC, tags=["Access"], responses=responses(401))
async def refresh_tokens(
    visitor: NamedDependency[Visitor], data: JSONBody[RefreshBody]
) -> IssuedTokens:
    """New tokens for a refresh token, which works once. Used twice, all that came of the same login
    ends."""
    return await visitor.platform.accounts.refresh(
        data.refresh_token, visitor.note_for("token.refresh")
    )


@post(
    "/tokens/revoke", permission=PUBLIC, status_code=204, tags=["Access"], responses=responses(401)
)
async def revoke_tokens(visitor: NamedDependency[Visitor], data: JSONBody[RefreshBody]) -> None:
    """End a refresh token, and the access tokens that came with it."""
    await visitor.platform.accounts.end_grant(data.refresh_token, visitor.note_for("token.revoke"))


@post(
    "/password", permission=ANYONE, status_code=204, tags=["Access"], responses=responses(401, 429)
)
async def change_password(caller: NamedDependency[Caller], data: JSONBody[PasswordBody]) -> None:
    """Change your own password. Every session and token of yours ends with it."""
    if caller.principal.kind != "user":
        raise Forbidden("a key has no password")
    note = caller.note("password.change")
    await caller.platform.accounts.change_password(
        caller.principal.id, data.current_password, data.new_password, caller.origin, note
    )


@post(
    "/password/reset", permission=PUBLIC, status_code=204, tags=["Access"], responses=responses(401)
)
async def reset_password(visitor: NamedDependency[Visitor], data: JSONBody[ResetBody]) -> None:
    """Set a new password with a reset token."""
    await visitor.platform.accounts.reset_password(
        data.token, data.new_password, visitor.note_for("password.reset")
    )


async def _with_cookie(visitor: Visitor, session: Session) -> Response[SessionView]:
    platform = visitor.platform
    view = SessionView(
        email=session.user.email,
        organization=(await platform.tenants.organization(session.organization)).name,
        expires_at=session.expires_at,
        csrf_token=platform.accounts.csrf_token(session.secret),
    )
    return Response(view, status_code=201, cookies=login_cookies(platform, session))


def login_cookies(platform: Platform, session: Session) -> list[Cookie]:
    """The session, and the mark of a browser that has logged in to this account."""
    secure = platform.settings.is_secure
    return [
        _cookie(COOKIE, session.secret, SESSION_SECONDS, secure=secure),
        _cookie(
            BROWSER_COOKIE,
            platform.accounts.mark_browser(session.user),
            BROWSER_SECONDS,
            secure=secure,
        ),
    ]


def _cookie(name: str, value: str, seconds: float, *, secure: bool) -> Cookie:
    return Cookie(
        name,
        value=value,
        path="/",
        httponly=True,
        secure=secure,
        samesite="lax",
        max_age=int(seconds),
    )


HANDLERS = [
    log_in,
    log_in_by_link,
    who_am_i,
    log_out,
    create_tokens,
    refresh_tokens,
    revoke_tokens,
    change_password,
    reset_password,
]
