"""Single sign-on: to the provider and back. Every way that it can fail ends on the login page,
without a session."""

from typing import Any

from litestar import Request, Response, get
from litestar.datastructures import Cookie
from litestar.di import NamedDependency

from taskforge.api.entry.caller import PUBLIC, Visitor
from taskforge.api.pages.entrance import login_page
from taskforge.api.routes.sessions import login_cookies
from taskforge.domain.access import Forbidden
from taskforge.operations.access.accounts import Session
from taskforge.operations.access.oidc import MOST_CHARACTERS, IdentityProvider, LoginRefused
from taskforge.operations.access.oidc_attempts import ATTEMPT_SECONDS

PATH = "/login/oidc"
COOKIE = "taskforge_oidc"
_HTML = "text/html"


@get(PATH, permission=PUBLIC, include_in_schema=False)
async def log_in_elsewhere(
    request: Request[Any, Any, Any], visitor: NamedDependency[Visitor]
) -> Response[bytes]:
    provider = _provider(visitor)
    attempt = provider.attempts.fresh()
    try:
        address = await provider.address_for(attempt, _redirect_uri(request, visitor))
    except LoginRefused as error:
        return _failed(error.status, str(error))
    response = Response(b"", status_code=303, media_type=_HTML, headers={"Location": address})
    secure = visitor.platform.settings.is_secure
    # Lax, not Strict: the way back from the provider is a navigation that another site began.
    response.set_cookie(
        Cookie(
            COOKIE,
            value=attempt.cookie,
            path=PATH,
            httponly=True,
            secure=secure,
            samesite="lax",
            max_age=ATTEMPT_SECONDS,
        )
    )
    return response


@get(f"{PATH}/callback", permission=PUBLIC, include_in_schema=False)
async def come_back(
    request: Request[Any, Any, Any], visitor: NamedDependency[Visitor]
) -> Response[bytes]:
    try:
        session = await _session(request, visitor)
    except LoginRefused as error:
        response = _failed(error.status, str(error))
    except Forbidden as error:
        response = _failed(403, str(error))
    else:
        response = Response(b"", status_code=303, media_type=_HTML, headers={"Location": "/"})
        for cookie in login_cookies(visitor.platform, session):
            response.set_cookie(cookie)
    response.delete_cookie(COOKIE, path=PATH)
    return response


async def _session(request: Request[Any, Any, Any], visitor: Visitor) -> Session:
    provider, accounts = _provider(visitor), visitor.platform.accounts
    attempt = provider.attempts.read(request.cookies.get(COOKIE, ""))
    if attempt is None or _one(request, "state") != attempt.state:
        raise LoginRefused(400, "this login was not begun here, or took too long; begin again")
    if not await accounts.is_first_return(attempt.state):
        raise LoginRefused(400, "this login was followed already; begin again")
    if "error" in request.query_params:
        raise LoginRefused(
            401, "the provider did not log you in; begin again, or ask whoever runs it"
        )
    code = _one(request, "code")
    if not 0 < len(code) <= MOST_CHARACTERS:
        raise LoginRefused(400, "the provider sent no code; begin again")
    email = await provider.email_for(code, attempt, _redirect_uri(request, visitor))
    user, member = await accounts.vouched_for(email)
    note = visitor.note_for("session.create")(user.email, member.organization)
    return await accounts.begin_session(user, member.organization, note)


def _provider(visitor: Visitor) -> IdentityProvider:
    provider = visitor.platform.provider
    assert provider is not None  # without one there are no such routes
    return provider


def _one(request: Request[Any, Any, Any], name: str) -> str:
    """A parameter that is there once; whoever sends two means to confuse."""
    values = request.query_params.getall(name, [])
    return values[0] if len(values) == 1 else ""


def _redirect_uri(request: Request[Any, Any, Any], visitor: Visitor) -> str:
    """Never from a header of the request. Without a public address the server is on this machine,
    and its port is known."""
    settings = visitor.platform.settings
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    server = request.scope["server"]
    port = settings.port if server is None else server[1]
    return f"{settings.public_url or f'http://{host}:{port}'}{PATH}/callback"


def _failed(status: int, problem: str) -> Response[bytes]:
    headers = {"Referrer-Policy": "strict-origin"}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status == 503:
        headers["Retry-After"] = "5"
    page = login_page("", problem, single_sign_on=True)
    return Response(page, status_code=status, media_type=_HTML, headers=headers)


HANDLERS = [log_in_elsewhere, come_back]
