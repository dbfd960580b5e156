"""Puts the API together: routes, the guard before them, errors, the document that describes them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from litestar import Litestar, Router
from litestar.config.compression import CompressionConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme, Tag
from litestar.types import ASGIApp

from taskforge.api import problems
from taskforge.api.backend import Backend
from taskforge.api.caller import authorize, provide_caller, provide_visitor
from taskforge.api.front import Front
from taskforge.api.parameters import check_parameters
from taskforge.api.routes import (
    PREFIX,
    events,
    executions,
    health,
    jobs,
    keys,
    oidc,
    organizations,
    pages,
    queues,
    quick,
    sessions,
    workers,
)
from taskforge.domain.errors import TaskForgeError
from taskforge.operations.server_upkeep import ServerUpkeep
from taskforge.operations.upkeep import lasting
from taskforge.version import __version__

# Jobs come in by the front; all else is small, and here becomes objects that take a dozen times as much.
MOST_BODY_BYTES = 1024 * 1024
_TAGS = [
    Tag("Jobs", "Enqueue, read, steer"),
    Tag("Queues", "Where jobs wait, and by which rules they run"),
    Tag("Executions", "The tries of a job and what they logged"),
    Tag("Workers", "Who runs jobs"),
    Tag("Assignments", "Which workers serve which queues"),
    Tag("Projects", "What belongs together, and what it may use"),
    Tag("Organization", "The tenant itself"),
    Tag("Members", "People, roles, invitations"),
    Tag("Keys", "Credentials of programs and workers"),
    Tag("Audit", "Who changed what"),
    Tag("Worker protocol", "How workers in any language get jobs and report on them"),
    Tag("Access", "Logging in"),
    Tag("Events", "What happens, as it happens"),
    Tag("Health", "For load balancers and probes"),
]


def build(backend: Backend) -> ASGIApp:
    """The whole server as one ASGI application. The backend's engine is open, and stays its maker's to close."""
    app = make_app(backend)
    return Front(app, backend)


def make_app(backend: Backend | None) -> Litestar:
    """The documented part; without a backend it only describes itself."""
    handlers = [
        *queues.HANDLERS,
        *quick.HANDLERS,
        *jobs.HANDLERS,
        *executions.HANDLERS,
        *workers.HANDLERS,
        *organizations.HANDLERS,
        *keys.HANDLERS,
        *sessions.HANDLERS,
        *events.HANDLERS,
    ]
    api = Router(PREFIX, route_handlers=handlers, guards=[check_parameters])
    sign_on = [] if backend is None or backend.provider is None else oidc.HANDLERS
    check_declared([*handlers, *health.HANDLERS, *pages.HANDLERS, *sign_on])
    return Litestar(
        route_handlers=[api, *health.HANDLERS, *pages.HANDLERS, *sign_on],
        guards=[authorize],
        dependencies={
            "caller": Provide(provide_caller, sync_to_thread=False),
            "visitor": Provide(provide_visitor, sync_to_thread=False),
        },
        exception_handlers={TaskForgeError: problems.answer, HTTPException: problems.answer, Exception: problems.answer},
        state=State({"backend": backend}),
        lifespan=[] if backend is None else [_beside],
        compression_config=CompressionConfig(backend="gzip", minimum_size=1_000, gzip_compress_level=5, exclude=["/events"]),
        request_max_body_size=MOST_BODY_BYTES,
        openapi_config=None
        if backend is not None
        else OpenAPIConfig(
            title="TaskForge",
            version=__version__,
            description="A durable job platform. Errors are problem+json; `errors` points to each field at fault.",
            components=Components(
                security_schemes={
                    "bearer": SecurityScheme(type="http", scheme="bearer", description="An API key or an access token"),
                    "session": SecurityScheme(type="apiKey", name="taskforge_session", security_scheme_in="cookie"),
                }
            ),
            tags=_TAGS,
            operation_id_creator=lambda handler, *_: handler.fn.__name__,
            use_handler_docstrings=True,
        ),
        logging_config=None,
    )


def check_declared(handlers: Sequence[HTTPRouteHandler]) -> None:
    """A route that does not say what it needs does not get built."""
    for handler in handlers:
        if "permission" not in handler.opt:
            raise TypeError(f"{handler.fn.__name__} declares no permission")


@asynccontextmanager
async def _beside(app: Litestar) -> AsyncIterator[None]:
    """What runs beside the requests: the reader of events, the audit log's seals, the keys' last use."""
    backend: Backend = app.state.backend
    upkeep = ServerUpkeep(backend.journal, backend.gatekeeper, backend.desk, audit_days=backend.settings.audit_days)
    beside = {"feed": backend.feed.run, "waiting claims": backend.desk.claims.run, "server upkeep": upkeep.run}
    tasks = [asyncio.create_task(lasting(name, run), name=name) for name, run in beside.items()]
    try:
        yield
    finally:
        left = set(tasks)
        while left:  # one that missed its cancellation hears it again; a server that is told to stop must stop
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=1)
