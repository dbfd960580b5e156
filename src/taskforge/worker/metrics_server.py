"""Answers a scraper on a port of the worker's own, on this machine: `GET /metrics`, and nothing
else."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping

from taskforge.domain import outcome as outcomes
from taskforge.domain.errors import Invalid
from taskforge.ports.work_source import Completion
from taskforge.services import Errand, Service
from taskforge.telemetry.exposition import CONTENT_TYPE, render
from taskforge.telemetry.worker_figures import WorkerFigures
from taskforge.worker.worker import LiveWorker

HOST = "127.0.0.1"
LAG_SECONDS = 0.5
PATIENCE_SECONDS = 5.0  # with whoever asks, and does not go on
MOST_HEAD_BYTES = 8_192
_NAMES: Mapping[type, str] = {
    outcomes.Success: "succeeded",
    outcomes.Failure: "failed",
    outcomes.FailForGood: "failed",
    outcomes.RetryAfter: "failed",
    outcomes.TimedOut: "timed_out",
    outcomes.DeadlinePassed: "timed_out",
    outcomes.HeartbeatMissed: "timed_out",
    outcomes.Crashed: "crashed",
    outcomes.CancelOutcome: "cancelled",
    outcomes.SnoozeFor: "snoozed",
}


class MetricsServer:
    def __init__(self, worker: LiveWorker, port: int) -> None:
        """Takes the port at once, so that a port that is in use is told before jobs are taken."""
        self._worker = worker
        self.figures = WorkerFigures()
        try:
            self._socket = socket.create_server((HOST, port))
        except OSError as error:
            problem = f"is {port}, which cannot be had on {HOST} ({error.strerror})"
            raise Invalid("metrics_port", problem, "use a free one, or 0 for none") from None
        self.port: int = self._socket.getsockname()[1]
        worker.executor.watch(self._count)
        worker.reporter.on_count = self.figures.count_custom

    def services(self) -> list[Service]:
        """Beside the worker, until its process ends."""
        return [Errand("metrics", self._serve), Errand("event loop lag", self._measure_lag)]

    def _count(self, completion: Completion) -> None:
        name = _NAMES.get(type(completion.outcome), "handed_back")
        self.figures.count(completion.job.job_type, name, completion.ran)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, sock=self._socket, limit=MOST_HEAD_BYTES)
        async with server:
            await server.serve_forever()

    async def _measure_lag(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(LAG_SECONDS)
            self.figures.loop_lag_seconds = max(0.0, time.monotonic() - began - LAG_SECONDS)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # whoever goes away, or says too much, or nothing, is not answered
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer_to(head.split(b" ", 2)[:2]))
                await writer.drain()
        writer.close()

    def _answer_to(self, request: list[bytes]) -> bytes:
        if request == [b"GET", b"/metrics"]:
            executor = self._worker.executor
            families = self.figures.families(
                self._worker.name, executor.slots, executor.busy, executor.reporting
            )
            status, body = "200 OK", render(families).encode()
        else:
            status, body = "404 Not Found", b"there is /metrics, and nothing else\n"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body
