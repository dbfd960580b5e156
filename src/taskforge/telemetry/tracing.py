"""Traces by OpenTelemetry: the names, kinds and attributes of spans stand here, and nowhere else.

Nothing of OpenTelemetry is imported before somebody else has: an application that has a provider,
or `export_traces`. Without one, what asks here pays a look into a dictionary.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import msgspec

from taskforge.domain.alike import Alike
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed, ErrorInfo, Inserted, NewJob, Refused
from taskforge.domain.trace_text import TraceText, read_trace, trace_of
from taskforge.telemetry.redaction import redact
from taskforge.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

SYSTEM = "taskforge"
inherited: ContextVar[str | None] = ContextVar("taskforge_trace", default=None)
"""The trace that this code was called in, where no OpenTelemetry is at work: it is passed on."""


def tracer() -> "Tracer | None":
    """None: no spans are made here."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    try:
        provider = api.get_tracer_provider()
    except AttributeError:  # it is just being imported
        return None
    return None if isinstance(provider, api.ProxyTracerProvider) else _tracer_of(provider)


@lru_cache(maxsize=1)
def _tracer_of(provider: Any) -> "Tracer":
    made: Tracer = provider.get_tracer(SYSTEM, __version__)
    return made


def is_live() -> bool:
    """Whether jobs that are enqueued here belong to a trace."""
    return inherited.get() is not None or tracer() is not None


# --- Where this code is in a trace ---


def carried() -> str | None:
    """The trace that this code runs in, as a job carries it."""
    if tracer() is None:
        return inherited.get()
    headers = trace_headers()
    found = trace_of(headers.get("traceparent", ""), headers.get("tracestate", ""))
    return None if found is None else found.write()


def trace_headers() -> dict[str, str]:
    """For a request to another process; empty outside of a trace."""
    if tracer() is None:
        found = read_trace(inherited.get())
        return {} if found is None else _headers_of(found)
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def trace_ids() -> dict[str, str]:
    """For a line of the log."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None or not (seen := api.get_current_span().get_span_context()).is_valid:
        return ids_in(inherited.get())
    return {"trace_id": f"{seen.trace_id:032x}", "span_id": f"{seen.span_id:016x}"}


def ids_in(text: str | None) -> dict[str, str]:
    """The same of a trace that was carried here."""
    found = read_trace(text)
    return {} if found is None else {"trace_id": found.trace_id, "span_id": found.span_id}


@contextlib.contextmanager
def within(text: str | None) -> Iterator[None]:
    """As if this code ran in the span that the text names."""
    found = read_trace(text)
    if found is None:
        yield
        return
    if tracer() is None:
        token = inherited.set(text)
        try:
            yield
        finally:
            inherited.reset(token)
        return
    from opentelemetry.context import attach, detach

    attached = attach(_context_of(found))
    try:
        yield
    finally:
        detach(attached)


def _headers_of(found: TraceText) -> dict[str, str]:
    return {"traceparent": found.parent} | ({"tracestate": found.state} if found.state else {})


def _context_of(found: TraceText) -> "Context":
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(_headers_of(found), Context())


# --- The span of an enqueue ---


class SendSpan:
    """Around one enqueue: `jobs` are to be stored instead, for they carry its trace. Jobs that
    carry one of their own keep it."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self._span: Span | None = None
        self._using: Any = None

    def __enter__(self) -> Self:
        free = [self.jobs.template] if isinstance(self.jobs, Alike) else self.jobs
        free = [job for job in free if job.trace is None]
        if not free:
            return self
        if (found := tracer()) is not None:
            self._begin(found, free)
        text = read_trace(carried())
        if text is not None:
            self._put(msgspec.structs.replace(text, is_batch=len(self.jobs) > 1).write())
        return self

    def _begin(self, found: "Tracer", jobs: Sequence[NewJob]) -> None:
        from opentelemetry.trace import SpanKind, use_span

        queues = {job.queue for job in jobs}
        types = {job.job_type for job in jobs}
        about: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
        }
        if len(self.jobs) > 1:
            about["messaging.batch.message_count"] = len(self.jobs)
        if len(types) == 1:
            about["taskforge.job_type"] = next(iter(types))
        name = "send"
        if len(queues) == 1:
            about["messaging.destination.name"] = queue = next(iter(queues))
            name = f"send {queue}"
        self._span = found.start_span(name, kind=SpanKind.PRODUCER, attributes=about)
        self._using = use_span(self._span, record_exception=False, set_status_on_exception=False)
        self._using.__enter__()

    def _put(self, text: str) -> None:
        if isinstance(self.jobs, Alike):
            template = msgspec.structs.replace(self.jobs.template, trace=text)
            self.jobs = Alike(template, self.jobs.payloads)
        else:
            self.jobs = [
                msgspec.structs.replace(job, trace=text) if job.trace is None else job
                for job in self.jobs
            ]

    def tell(self, answers: Sequence[Inserted | Refused]) -> None:
        if self._span is None:
            return
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        if len(answers) == 1 and isinstance(answers[0], Inserted):
            self._span.set_attribute("messaging.message.id", str(answers[0].job))
            if answers[0].existed:
                self._span.set_attribute("taskforge.existed", True)
        if refused:
            self._span.set_attribute("taskforge.refused", len(refused))
            _fail(self._span, type(refused[0].error).__name__)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._span is None:
            return
        if kind is not None:
            _fail(self._span, kind.__name__)
        self._using.__exit__(None, None, None)
        self._span.end()


# --- The span of an execution ---


class ProcessSpan:
    """From the call of a handler to its outcome. It is the child of the enqueue; of one that
    brought many jobs it is not, but the root of a trace that is linked to that."""

    def __init__(self, job: Claimed, worker: Mapping[str, str]) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, set_span_in_context

        found = tracer()
        assert found is not None
        came = read_trace(job.trace)
        is_child = came is not None and not came.is_batch
        self.span = found.start_span(
            f"process {job.queue}",
            context=_context_of(came) if came is not None and is_child else Context(),
            kind=SpanKind.CONSUMER,
            links=[] if came is None or is_child else [_link_to(came)],
            attributes={
                "messaging.system": SYSTEM,
                "messaging.operation.type": "process",
                "messaging.operation.name": "process",
                "messaging.destination.name": job.queue,
                "messaging.message.id": str(job_of(job.fence)),
                "taskforge.job_type": job.job_type,
                "taskforge.execution": str(job.fence),
                "taskforge.attempt": job.attempt,
                "taskforge.max_attempts": job.max_attempts,
                "taskforge.priority": job.priority,
                "taskforge.wait_seconds": job.waited_seconds,
                **worker,
            },
        )
        self._context = set_span_in_context(self.span)
        self._token: Any = None

    def __enter__(self) -> Self:
        from opentelemetry.context import attach

        self._token = attach(self._context)
        return self

    def __exit__(self, *_: object) -> None:
        from opentelemetry.context import detach

        detach(self._token)
        if self.span.is_recording():  # nobody was told what came of it
            self.end("lost")

    def end(self, outcome: str, error: ErrorInfo | None = None) -> None:
        self.span.set_attribute("taskforge.outcome", outcome)
        if error is not None:
            _fail(self.span, error.type)
            about = {"exception.type": error.type, "exception.message": redact(error.message)}
            if error.traceback:
                about["exception.stacktrace"] = redact(error.traceback)
            self.span.add_event("exception", about)
        self.span.end()


def worker_attributes(name: str, identity: str | None) -> dict[str, str]:
    about = {"messaging.client.id": name, "taskforge.worker.name": name}
    return about if identity is None else about | {"taskforge.worker.id": identity}


def _link_to(came: TraceText) -> "Link":
    from opentelemetry.trace import Link, get_current_span

    return Link(get_current_span(_context_of(came)).get_span_context())


# --- The span of a request ---


class RequestSpan:
    """Around one request that a server answers, in the trace of its caller."""

    def __init__(self, method: str, scheme: str, trace: TraceText | None) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, set_span_in_context

        found = tracer()
        assert found is not None
        self._method = method
        self.span = found.start_span(
            method,
            context=Context() if trace is None else _context_of(trace),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "url.scheme": scheme},
        )
        self._context = set_span_in_context(self.span)
        self._token: Any = None

    def __enter__(self) -> Self:
        from opentelemetry.context import attach

        self._token = attach(self._context)
        return self

    def answered(self, status: int) -> None:
        self.span.set_attribute("http.response.status_code", status)
        if status >= 500:
            _fail(self.span, str(status))

    def belongs_to(self, route: str) -> None:
        """A route is a path without what varies in it."""
        self.span.update_name(f"{self._method} {route}")
        self.span.set_attribute("http.route", route)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        from opentelemetry.context import detach

        detach(self._token)
        if kind is not None:
            _fail(self.span, kind.__name__)
        self.span.end()


def _fail(span: "Span", error_type: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))
