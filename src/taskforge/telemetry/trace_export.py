"""Sends the spans of a process by OTLP over HTTP, to where the standard OTEL_* variables say."""

import atexit
import os
import sys
import threading
from typing import Any

from taskforge.domain.errors import Invalid
from taskforge.telemetry.tracing import tracer

SERVICE = "service.name"
_SERVICE = "taskforge_service"
# for what was not sent yet when a process ends; a receiver that is away must not hold it up
LEAVE_SECONDS = 3.0


def export_traces(service: str) -> None:
    """Unless the application has a provider of its own. `service`: what the process is called if
    OTEL_SERVICE_NAME does not say so."""
    if tracer() is not None:
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        raise Invalid(
            "tracing",
            "is on, and OpenTelemetry is not installed",
            "install taskforge-platform[otel]",
        ) from None
    is_named = "OTEL_SERVICE_NAME" in os.environ or f"{SERVICE}=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if is_named else {SERVICE: service})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    atexit.register(_leave, provider)
    setattr(provider, _SERVICE, service)
    trace.set_tracer_provider(provider)


def exported_as() -> str | None:
    """The service as which this process sends its spans by itself; None: it does not."""
    if tracer() is None:
        return None
    return getattr(sys.modules["opentelemetry.trace"].get_tracer_provider(), _SERVICE, None)


def _leave(provider: Any) -> None:
    leaving = threading.Thread(target=provider.shutdown, daemon=True)
    leaving.start()
    leaving.join(LEAVE_SECONDS)


def send_soon() -> None:
    """What has ended is sent now, beside what goes on: whoever calls may be killed at any time."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None or tracer() is None:
        return
    flush = getattr(api.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        threading.Thread(target=flush, daemon=True).start()
