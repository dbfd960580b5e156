"""The dashboard: one page at many addresses, and the parts that it is made of."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from taskforge.api.dashboard import files
from taskforge.api.entry.caller import PUBLIC, Visitor
from taskforge.domain.errors import NotFound

_HTML = "text/html"
_KEPT = "public, max-age=31536000, immutable"


def dashboard_page(request: Request[Any, Any, Any], visitor: Visitor) -> Response[bytes]:
    """The page, in the theme that this browser chose: no script has to run for that."""
    platform = visitor.platform
    body, tag = files.page(
        files.prefix_of(platform.settings.public_url),
        request.cookies.get("taskforge_theme", ""),
        single_sign_on=platform.provider is not None,
        place=files.BUILT,
    )
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Content-Security-Policy": files.POLICY}
    if tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, media_type=_HTML, headers=headers)
    return Response(body, media_type=_HTML, headers=headers)


@get("/o/{path:path}", permission=PUBLIC, include_in_schema=False)
async def place(
    request: Request[Any, Any, Any], visitor: NamedDependency[Visitor], path: FromPath[str]
) -> Response[bytes]:
    """A place of the dashboard: its own script knows which."""
    if not files.is_built(files.BUILT):
        raise NotFound("page", f"/o{path}")
    return dashboard_page(request, visitor)


@get("/dashboard/{name:str}", permission=PUBLIC, include_in_schema=False)
async def part(name: FromPath[str]) -> Response[bytes]:
    """What the page is made of. What is not there is missing, and never the page instead: a browser
    would take it for a script."""
    found = files.asset(name, files.BUILT)
    if found is None:
        raise NotFound("file", name)
    body, kind = found
    # a worker goes by the policy of its own script, not by that of the page
    headers = {"Cache-Control": _KEPT, "Content-Security-Policy": files.POLICY}
    return Response(body, media_type=kind, headers=headers)


HANDLERS = [place, part]
