"""Puts the API together: routes, the guard before them, errors, the document that describes
them."""

from collections.abc import Sequence

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme, Tag
from litestar.types import ASGIApp

from taskforge.api.entry import problems
from taskforge.api.entry.bodies import StrictRequest
from taskforge.api.entry.caller import authorize, provide_caller, provide_visitor
from taskforge.api.entry.compression import Compression
from taskforge.api.entry.front import Front
from taskforge.api.entry.parameters import check_parameters
from taskforge.api.entry.request_spans import RequestSpans
from taskforge.api.routes import (
    PREFIX,
    alerts,
    assignments,
    audit,
    circuits,
    dashboard,
    events,
    executions,
    failures,
    health,
    hot,
    job_changes,
    jobs,
    keys,
    members,
    metrics,
    oidc,
    organizations,
    pages,
    prometheus,
    queues,
    scaling,
    schedules,
    sessions,
    webhooks,
    workers,
)
from taskforge.domain.errors import TaskForgeError
from taskforge.operations.platform import Platform
from taskforge.telemetry import tracing
from taskforge.version import __version__

# Jobs come in by the front; all else is small, and here becomes objects that take a dozen times as
# much.
MOST_BODY_BYTES = 1024 * 1024
_TAGS = [
    Tag("Jobs", "Enqueue, read, steer"),
    Tag("Queues", "Where jobs wait, and by which rules they run"),
    Tag("Schedules", "Jobs that are made by the clock"),
    Tag("Alerts", "Rules that tell when something is wrong"),
    Tag("Webhooks", "Where events are sent, and what came of it"),
    Tag("Executions", "The tries of a job and what they logged"),
    Tag("Metrics", "How executions went"),
    Tag("Workers", "Who runs jobs"),
    Tag("Assignments", "Which workers serve which queues"),
    Tag("Projects", "What belongs together, and what it may use"),
    Tag("Circuits", "What is held back because it failed too often"),
    Tag("Scaling", "How many workers a queue should have"),
    Tag("Organization", "The tenant itself"),
    Tag("Members", "People, roles, invitations"),
    Tag("Keys", "Credentials of programs and workers"),
    Tag("Audit", "Who changed what"),
    Tag("Worker protocol", "How workers in any language get jobs and report on them"),
    Tag("Access", "Logging in"),
    Tag("Events", "What happens, as it happens"),
    Tag("Cluster", "The processes that share the store"),
    Tag("Health", "For load balancers and probes"),
]


def build(platform: Platform) -> ASGIApp:
    """The whole server as one ASGI application. The platform's engine is open, and stays its
    maker's to close; what runs beside the requests is the node's (`node.server_services`)."""
    front = Front(make_app(platform), platform)
    return RequestSpans(front) if tracing.tracer() is not None else front


def make_app(platform: Platform | None) -> Litestar:
    """The documented part; without a platform it only describes itself."""
    handlers = [
        *queues.HANDLERS,
        *hot.HANDLERS,
        *jobs.HANDLERS,
        *job_changes.HANDLERS,
        *schedules.HANDLERS,
        *alerts.HANDLERS,
        *webhooks.HANDLERS,
        *executions.HANDLERS,
        *failures.HANDLERS,
        *metrics.HANDLERS,
        *workers.HANDLERS,
        *assignments.HANDLERS,
        *circuits.HANDLERS,
        *scaling.HANDLERS,
        *organizations.HANDLERS,
        *members.HANDLERS,
        *keys.HANDLERS,
        *audit.HANDLERS,
        *sessions.HANDLERS,
        *events.HANDLERS,
    ]
    api = Router(PREFIX, route_handlers=handlers, guards=[check_parameters])
    sign_on = [] if platform is None or platform.provider is None else oidc.HANDLERS
    whole = [
        *health.HANDLERS,
        *prometheus.HANDLERS,
        *pages.HANDLERS,
        *dashboard.HANDLERS,
        *sign_on,
    ]
    check_declared([*handlers, *whole])
    return Litestar(
        route_handlers=[api, *whole],
        guards=[authorize],
        dependencies={
            "caller": Provide(provide_caller, sync_to_thread=False),
            "visitor": Provide(provide_visitor, sync_to_thread=False),
        },
        exception_handlers={
            TaskForgeError: problems.answer,
            HTTPException: problems.answer,
            Exception: problems.answer,
        },
        state=State({"platform": platform}),
        middleware=[Compression()],
        request_class=StrictRequest,
        request_max_body_size=MOST_BODY_BYTES,
        openapi_config=None
        if platform is not None
        else OpenAPIConfig(
            title="TaskForge",
            version=__version__,
            description="A durable job platform. Errors are problem+json; `errors` points to each "
            "field at fault.",
            components=Components(
                security_schemes={
                    "bearer": SecurityScheme(
                        type="http", scheme="bearer", description="An API key or an access token"
                    ),
                    "session": SecurityScheme(
                        type="apiKey", name="taskforge_session", security_scheme_in="cookie"
                    ),
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
