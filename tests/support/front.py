"""A small HTTP server in a thread, which answers as a test wants: it stands in for others."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    method: str
    path: str  # with its query
    headers: dict[str, str]  # names in lower case
    body: bytes


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class Front:
    """`hangs`: requests are read, and not answered for as long as it is set. `loses`: of these the
    answer never arrives, after they were carried out."""

    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.hangs = threading.Event()
        self.released = threading.Event()
        self.loses: Callable[[Asked], bool] = lambda _: False
        self.url = ""

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        size = int(handler.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(handler.command, handler.path, headers, handler.rfile.read(size))
        self.asked.append(asked)
        if self.hangs.is_set():
            self.released.wait(30)
            handler.close_connection = True
            return
        status, body, extra = self.answer(asked)
        if self.loses(asked):
            handler.close_connection = True
            return
        handler.send_response(status)
        for name, value in extra.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@contextmanager
def served(answer: Callable[[Asked], Answer]) -> Iterator[Front]:
    front = Front(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

        def _serve(self) -> None:
            front.serve(self)

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._serve)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    front.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield front
    finally:
        front.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
