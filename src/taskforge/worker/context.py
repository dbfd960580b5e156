"""What a running handler can see and say."""

import asyncio
import contextvars
import time
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.execution import Beat
from taskforge.domain.ids import epoch_of, job_of
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine, level_named
from taskforge.domain.outcome import MOST_UNEXPLAINED

if TYPE_CHECKING:
    from taskforge.worker.registry import Handler


class Channel(Protocol):
    """Where a context's words go: straight to the worker, or through a pipe from a child
    process."""

    def progress(self, fence: UUID, fraction: float | None, message: str | None) -> None: ...
    def line(self, line: NewLine) -> None: ...
    def metric(self, job: Claimed, name: str, value: float) -> None: ...
    async def beat(self, beat: Beat) -> bool: ...


class Running:
    """A job in a slot. One per job on the hot path, so it holds little and computes late."""

    __slots__ = (
        "channel",
        "claimed",
        "context",
        "handler",
        "reason",
        "started",
        "stop",
        "task",
        "told",
        "why",
    )

    def __init__(self, claimed: Claimed, channel: Channel) -> None:
        self.claimed = claimed
        self.channel = channel
        self.handler: Handler | None = None
        self.started = time.monotonic()
        self.task: asyncio.Task[Any] | None = None
        # why it was told to stop: timeout, cancel, lost, deadline, shutdown, lease, away
        self.why: str | None = None
        self.reason: str | None = None  # the words of whoever cancelled it
        self.told = False  # whether the store was told that it started
        self.stop: Any = None  # how to stop what runs outside the event loop
        self.context: Context | None = None

    @property
    def timeout_seconds(self) -> float:
        """The job's own; but one that came by name, without, has its queue's, and its handler may
        allow it less."""
        limit, handler = self.claimed.timeout_seconds, self.handler
        if (
            handler is None
            or handler.timeout is None
            or limit != self.claimed.policy.timeout_seconds
        ):
            return limit
        return min(limit, handler.timeout)

    @property
    def may_be_excused(self) -> bool:
        """Whether it may go back unspent once more because another held it up; one that always
        overruns must end some day."""
        return epoch_of(self.claimed.fence) - self.claimed.attempt < MOST_UNEXPLAINED

    def overran(self, ran: float, held_up: float) -> str | None:
        """What it ran longer than: its deadline or its timeout, in the words of `why`. Time for
        which another job held the event loop does not count; but the store, which knows nothing of
        that, will end it: just before, it goes back unspent."""
        deadline = self.claimed.deadline_seconds
        if deadline is not None and ran >= deadline:
            return "deadline"
        limit = self.timeout_seconds
        if not held_up:
            return "timeout" if ran >= limit else None
        if ran - held_up >= limit:
            return "timeout"
        return "held up" if ran >= limit - min(HELD_UP_MARGIN_SECONDS, 0.1 * limit) else None


HELD_UP_MARGIN_SECONDS = 1.0

current: contextvars.ContextVar[Running | None] = contextvars.ContextVar(
    "taskforge_job", default=None
)


# the name of the worker that this code runs in
current_worker: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "taskforge_worker", default=None
)


class Context:
    """A handler's view of its job. Every method is safe from async handlers, threads and child
    processes."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.job = running.claimed

    @property
    def id(self) -> UUID:
        return job_of(self.job.fence)

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def max_attempts(self) -> int:
        return self.job.max_attempts

    @property
    def fencing_token(self) -> int:
        """Rises with every claim of this job: hand it to whatever you write to, and let it refuse
        older ones."""
        return epoch_of(self.job.fence)

    @property
    def seconds_left(self) -> float:
        """Until the attempt's timeout or the job's deadline, whichever comes first."""
        limit = self._running.timeout_seconds
        if self.job.deadline_seconds is not None:
            limit = min(limit, self.job.deadline_seconds)
        return max(0.0, self._running.started + limit - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether the job should stop: it was cancelled, timed out, or is no longer this
        worker's."""
        return self._running.why is not None

    @property
    def cancel_reason(self) -> str | None:
        """What whoever cancelled the job gave as the reason."""
        return self._running.reason

    def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """How far the job is, from 0 to 1. Cheap: only the latest is sent, at most a few times a
        second."""
        if fraction is not None:
            fraction = rules.number("progress", fraction, 0, 1)
        if message is not None:
            message = rules.text("message", message, least=0, most=1_000)
        self._running.channel.progress(self.job.fence, fraction, message)

    def log(self, message: str, *, level: str = "info", **metadata: Any) -> None:
        """A line in the execution's log. The standard `logging` module ends up there too."""
        number = level_named(level)
        encoded = rules.json_bytes("metadata", metadata, most=65_536) if metadata else None
        self._running.channel.line(NewLine(self.job.fence, number, str(message), encoded))

    def update_metrics(self, name: str, value: float = 1.0) -> None:
        """Count a value of your own under a name of this job type: its sum, average, least, most
        and last by minutes, in `forge.metrics.customs`, `taskforge stats --custom` and for
        Prometheus. Every attempt counts, whatever comes of it."""
        rules.text("name", name, most=100)
        self._running.channel.metric(self.job, name, rules.number("value", value, -1e15, 1e15))

    async def heartbeat(self) -> None:
        """Tell the store at once that the handler is alive. Queues with heartbeat_timeout_seconds
        need it in time."""
        await self._running.channel.beat(
            Beat(fence=self.job.fence, started_seconds_ago=time.monotonic() - self._running.started)
        )


def current_context() -> Context:
    """The context of the job that this code runs for, however deep in the call stack."""
    running = current.get()
    if running is None:
        raise RuntimeError("no job is running here")
    return context_of(running)


def context_of(running: Running) -> Context:
    if running.context is None:
        running.context = Context(running)
    return running.context


def metadata_bytes(values: dict[str, Any]) -> bytes | None:
    """Log metadata from anywhere: what JSON cannot carry is written as text rather than refused."""
    return msgspec.json.encode(values, enc_hook=str)[:65_536] if values else None
