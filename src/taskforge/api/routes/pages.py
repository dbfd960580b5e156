"""What the server shows of itself: the API's document, its reference page, and the page behind a
login link. Only the reference has a script."""

import hashlib
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from taskforge.api.dashboard import files
from taskforge.api.entry.caller import COOKIE, PUBLIC, Visitor
from taskforge.api.pages.entrance import landing_page, login_page, refused_page
from taskforge.api.pages.markup import asset, version_of
from taskforge.api.pages.reference import SCRIPT, reference
from taskforge.api.routes.dashboard import dashboard_page
from taskforge.api.routes.sessions import login_cookies
from taskforge.api.schema.document import document, document_bytes
from taskforge.domain.access import Principal, Unauthenticated
from taskforge.domain.audit import Note

_HTML = "text/html"
_REFERENCE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_MOST_FORM_BYTES = 16 * 1024
# Without any referrer a browser hides where a form comes from (`Origin: null`); so much shows the
# server, and never the token.
_FORM_HEADERS = {"Referrer-Policy": "strict-origin"}
_ELSEWHERE = (
    "This form was sent from another site, so it was not followed. Open the page here "
    "and send it again."
)


@get("/api/v1/openapi.json", permission=PUBLIC, include_in_schema=False)
async def openapi() -> Response[bytes]:
    """The API's own description, OpenAPI 3.1."""
    return Response(document_bytes(), media_type="application/json")


@get("/api/v1/docs", permission=PUBLIC, include_in_schema=False)
async def docs(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The same for people."""
    page, tag = _reference()
    headers = {
        "ETag": tag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": _REFERENCE_POLICY,
    }
    if tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, media_type=_HTML, headers=headers)
    return Response(page, media_type=_HTML, headers=headers)


@get("/assets/style.css", permission=PUBLIC, include_in_schema=False)
async def style(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _asset(request, "style.css", "text/css")


@get("/assets/reference.js", permission=PUBLIC, include_in_schema=False)
async def script(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _asset(request, SCRIPT, "text/javascript")


@get("/assets/icon.svg", permission=PUBLIC, include_in_schema=False)
async def icon(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _asset(request, "icon.svg", "image/svg+xml")


@get("/", permission=PUBLIC, include_in_schema=False)
async def landing(
    request: Request[Any, Any, Any], visitor: NamedDependency[Visitor]
) -> Response[bytes]:
    """The dashboard; where it is not built: who is logged in, what there is, and how to get it."""
    if files.is_built(files.BUILT):
        return dashboard_page(request, visitor)
    session = request.cookies.get(COOKIE, "")
    principal = await _whose(visitor, session)
    if principal is None:
        return Response(landing_page(None, ""), media_type=_HTML, headers=_FORM_HEADERS)
    organization = await visitor.platform.tenants.organization(principal.organization)
    who = (principal.label.removeprefix("user:"), organization.name, principal.role or "")
    page = landing_page(who, visitor.platform.accounts.csrf_token(session))
    return Response(page, media_type=_HTML, headers=_FORM_HEADERS)


@get("/login", permission=PUBLIC, include_in_schema=False)
async def ask_to_log_in(
    visitor: NamedDependency[Visitor], token: FromQuery[str] = ""
) -> Response[bytes]:
    page = login_page(token.strip(), single_sign_on=visitor.platform.provider is not None)
    return Response(page, media_type=_HTML, headers=_FORM_HEADERS)


@post("/login", permission=PUBLIC, include_in_schema=False, request_max_body_size=_MOST_FORM_BYTES)
async def log_in_by_form(
    request: Request[Any, Any, Any], visitor: NamedDependency[Visitor]
) -> Response[bytes]:
    if not _is_ours(request, visitor.platform.settings.public_url):
        return Response(
            refused_page(_ELSEWHERE), status_code=403, media_type=_HTML, headers=_FORM_HEADERS
        )
    token = await _field(request, "token")
    try:
        session = await visitor.platform.accounts.session_by_link(
            token, visitor.note_for("session.create")
        )
    except Unauthenticated as error:
        headers = _FORM_HEADERS | {"WWW-Authenticate": "Bearer"}
        page = login_page("", str(error), single_sign_on=visitor.platform.provider is not None)
        return Response(page, status_code=401, media_type=_HTML, headers=headers)
    response = _to_the_start(visitor)
    for cookie in login_cookies(visitor.platform, session):
        response.set_cookie(cookie)
    return response


@post("/logout", permission=PUBLIC, include_in_schema=False, request_max_body_size=_MOST_FORM_BYTES)
async def log_out_by_form(
    request: Request[Any, Any, Any], visitor: NamedDependency[Visitor]
) -> Response[bytes]:
    """A session that ended meanwhile is no reason to complain to whoever wants to end it."""
    session = request.cookies.get(COOKIE, "")
    accounts = visitor.platform.accounts
    if session and not accounts.fits_csrf(session, await _field(request, "csrf_token")):
        return Response(
            refused_page(_ELSEWHERE), status_code=403, media_type=_HTML, headers=_FORM_HEADERS
        )
    principal = await _whose(visitor, session)
    if principal is not None:
        note = Note(
            principal.label,
            "session.delete",
            principal.organization,
            visitor.origin,
            visitor.request,
        )
        await accounts.end_session(session, note)
    response = _to_the_start(visitor)
    response.delete_cookie(COOKIE, path="/")
    return response


@cache
def _reference() -> tuple[bytes, str]:
    page = reference(document())
    return page, f'"{hashlib.sha256(page).hexdigest()[:32]}"'


def _asset(request: Request[Any, Any, Any], name: str, media_type: str) -> Response[bytes]:
    # Asked for another version, as by a page of a newer server beside this one: not to be kept
    # under that name.
    current = request.query_params.get("v") == version_of(name)
    kept = "public, max-age=31536000, immutable" if current else "public, max-age=60"
    return Response(asset(name), media_type=media_type, headers={"Cache-Control": kept})


def _to_the_start(visitor: Visitor) -> Response[bytes]:
    start = files.prefix_of(visitor.platform.settings.public_url) + "/"
    return Response(b"", status_code=303, media_type=_HTML, headers={"Location": start})


async def _whose(visitor: Visitor, session: str) -> Principal | None:
    if not session:
        return None
    try:
        principal = await visitor.platform.gatekeeper.identify(session)
    except Unauthenticated:
        return None
    return principal if principal.kind == "user" else None


async def _field(request: Request[Any, Any, Any], name: str) -> str:
    value = (await request.form()).get(name, "")
    return value.strip() if isinstance(value, str) else ""


def _is_ours(request: Request[Any, Any, Any], public_url: str) -> bool:
    """Whether a page of ours sent the form, else another site could log someone in as somebody
    else.

    A browser says so itself, to servers it trusts; to others it only says where the page came from.
    What says neither is refused.
    """
    told = request.headers.get("sec-fetch-site")
    if told is not None:
        return told in ("same-origin", "none")
    origin = urlsplit(request.headers.get("origin", ""))
    if origin.scheme not in ("http", "https") or not origin.netloc:
        return False
    return (
        origin.netloc == request.headers.get("host")
        or (origin.scheme, origin.netloc) == urlsplit(public_url)[:2]
    )


HANDLERS = [
    openapi,
    docs,
    style,
    script,
    icon,
    landing,
    ask_to_log_in,
    log_in_by_form,
    log_out_by_form,
]
