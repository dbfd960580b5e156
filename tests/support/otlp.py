"""A receiver of OTLP over HTTP: it takes the bytes that real processes send, and knows the spans in
them."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.shell import until

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


class Seen(msgspec.Struct, frozen=True):
    """A span as it came in."""

    service: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]  # trace and span of each
    is_error: bool
    events: tuple[tuple[str, dict[str, Any]], ...]
    raw: bytes


class Receiver:
    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.spans: list[Seen] = []
        self.environment = {
            "TASKFORGE_TRACING": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.address,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def take(self, body: bytes) -> None:
        for of in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _values(of.resource.attributes)["service.name"]
            for scope in of.scope_spans:
                self.spans += [_seen(service, span) for span in scope.spans]

    def named(self, name: str) -> list[Seen]:
        return [span for span in self.spans if span.name == name]

    def until(self, is_there: Callable[[], bool]) -> None:
        until(is_there, lambda: "\n".join(f"{one.service} {one.name}" for one in self.spans))

    def one(self, name: str) -> Seen:
        self.until(lambda: bool(self.named(name)))
        (found,) = self.named(name)
        return found


def _seen(service: str, span: Any) -> Seen:
    return Seen(
        service=service,
        name=span.name,
        kind=KINDS[span.kind],
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes=_values(span.attributes),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        is_error=span.status.code == 2,
        events=tuple((event.name, _values(event.attributes)) for event in span.events),
        raw=span.SerializeToString(),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            receiver.take(body)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server.server_address[1])
    serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
