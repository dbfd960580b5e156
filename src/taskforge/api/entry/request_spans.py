"""A span for each request, where the server has traces. What workers and probes ask all the time
has none, unless it comes in a trace."""

from typing import Any

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from taskforge.api.entry.heads import trace_in
from taskforge.api.entry.hot_routes import template_of
from taskforge.api.routes import PREFIX
from taskforge.domain.trace_text import read_trace
from taskforge.telemetry.tracing import RequestSpan

_FREQUENT = (f"{PREFIX}/worker/", "/healthz", "/readyz", "/metrics")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


class RequestSpans:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        values: Any = scope
        if values["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace = read_trace(trace_in(dict(values["headers"])))
        if trace is None and values["path"].startswith(_FREQUENT):
            await self._app(scope, receive, send)
            return
        method = values["method"] if values["method"] in _METHODS else "_OTHER"
        with RequestSpan(method, values["scheme"], trace) as span:

            async def send_seen(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.answered(message["status"])
                await send(message)

            try:
                await self._app(scope, receive, send_seen)
            finally:
                route = values.get("path_template") or template_of(values["path"])
                if route:
                    span.belongs_to(route)
