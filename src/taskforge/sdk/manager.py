"""Workers from Python: custom worker classes, factories by role, and a manager that starts and
stops them."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.ids import created_at, job_of
from taskforge.domain.worker import NewWorker, check_worker
from taskforge.node import Node, make_node
from taskforge.sdk.app import TaskForge
from taskforge.worker.context import Context
from taskforge.worker.options import WorkerOptions
from taskforge.worker.registry import Handler, Registry
from taskforge.worker.worker import LiveWorker


class IncomingJob(msgspec.Struct, frozen=True):
    """A job as a custom worker sees it."""

    id: UUID
    job_type: str
    queue: str
    payload: Any
    attempt: int
    created_at: datetime


class CustomWorker:
    """A worker that takes whole jobs instead of having a handler for each type. Subclass it and
    give `process_job`.

    It may answer like any handler: return a value, raise, or return Snooze, Retry, Fail, Cancel,
    Skip.
    """

    role: ClassVar[str | None] = None
    worker_type: ClassVar[str] = "general"
    job_types: ClassVar[tuple[str, ...] | None] = None  # None: every type in its queues
    queues: ClassVar[tuple[str, ...] | None] = None
    capabilities: ClassVar[dict[str, Any]] = {}

    async def process_job(self, job: IncomingJob, ctx: Context) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no process_job method")

    async def health_check(self) -> bool:
        return True


_OWN = (
    "max_concurrent_jobs",
    "worker_id",
    "job_timeout",
    "retry_limit",
    "cleanup_interval",
    "health_check_interval",
)
_OPTIONS = tuple(
    name
    for name in WorkerOptions.__struct_fields__
    if name not in ("name", "slots", "health_check_seconds")
)
# what registration would refuse is refused here
_SAID = tuple(name for name in _OPTIONS if name in NewWorker.__struct_fields__)


class WorkerManager:
    """Runs an application's workers: its handlers, and custom workers made by factories."""

    def __init__(
        self,
        forge: TaskForge,
        *,
        max_concurrent_jobs: int = 10,
        worker_id: str | None = None,
        job_timeout: float | None = None,
        retry_limit: int | None = None,
        cleanup_interval: float = 60.0,
        health_check_interval: float = 30.0,
        **options: Any,
    ) -> None:
        """`job_timeout` in seconds and `retry_limit` (tries after the first) hold for the app's
        jobs that name none, themselves or by their handler, before those of their queue (300 and
        2); one that came from elsewhere runs no longer than `job_timeout`. `cleanup_interval`:
        seconds between two removals of what retention no longer keeps; `health_check_interval`:
        between two health checks. `options` are those of `WorkerOptions`."""
        for name in options:
            if name not in _OPTIONS:
                raise rules.unknown("WorkerManager()", name, (*_OWN, *_OPTIONS))
        if worker_id is not None:
            rules.text("worker_id", worker_id, most=100)
        rules.integer("max_concurrent_jobs", max_concurrent_jobs, 1, 1_000)
        self._timeout = (
            None
            if job_timeout is None
            else rules.number("job_timeout", job_timeout, 0.1, 30 * 86_400)
        )
        self._attempts = (
            None if retry_limit is None else rules.integer("retry_limit", retry_limit, 0, 9_999) + 1
        )
        self._cleanup_interval = rules.number("cleanup_interval", cleanup_interval, 0.1, 86_400)
        often = rules.number("health_check_interval", health_check_interval, 0.05, 86_400)
        self._forge = forge
        self._options = {
            "name": worker_id,
            "slots": max_concurrent_jobs,
            "health_check_seconds": often,
            **options,
        }
        check_worker(
            NewWorker(
                name=worker_id or "any",
                **{name: options[name] for name in _SAID if name in options},
            )
        )
        if self._timeout is not None or self._attempts is not None:
            forge.registry.default_to(timeout=self._timeout, max_attempts=self._attempts)
        self._factories: dict[str, Callable[[], CustomWorker]] = {}
        self._is_starting = False
        self._node: Node | None = None
        self._running: asyncio.Task[None] | None = None

    def register(self, role: str, factory: Callable[[], CustomWorker]) -> None:
        """`factory` makes the worker for a role when the manager starts."""
        if role in self._factories:
            raise Invalid("role", f"{role!r} has a factory already", "register each role once")
        self._factories[role] = factory

    async def start(self) -> None:
        """Start and return when every worker is registered and takes jobs, or when shut down before
        that. If one fails, that is raised and nothing is left running."""
        if self._is_starting or self._running is not None:
            raise Invalid("start()", "was called twice", "call shutdown() first")
        self._is_starting = True
        try:
            engine, workers = await self._forge.engine(), await self._workers()
        finally:
            is_wanted, self._is_starting = self._is_starting, False
        if not is_wanted:
            return
        self._node = make_node(
            engine, self._forge.settings, workers=workers, prune_seconds=self._cleanup_interval
        )
        self._running = running = asyncio.create_task(self._node.run())
        getting_ready = asyncio.create_task(self._node.ready())
        try:
            await asyncio.wait([getting_ready, running], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.shutdown()
            raise
        finally:
            getting_ready.cancel()
        if running.done():
            await self.shutdown()

    async def shutdown(self) -> None:
        """Stop claiming, finish what runs within the grace time, hand back the rest. A second call
        does not wait for what runs. Raises what made a worker or the upkeep fail, if anything
        did."""
        self._is_starting = False
        node, running = self._node, self._running
        if node is None or running is None:
            return
        node.stop()
        await asyncio.wait([running])
        if self._running is running:
            self._node = self._running = None
        await running

    async def _workers(self) -> list[LiveWorker]:
        customs = [self._custom(role, factory()) for role, factory in self._factories.items()]
        chosen = [self._options, *customs] if self._forge.registry.types() else customs
        if not chosen:
            raise Invalid(
                "start()", "has nothing to run", "decorate a handler or register a factory first"
            )
        return [await self._forge.worker(**options) for options in chosen]

    def _custom(self, role: str, custom: CustomWorker) -> dict[str, Any]:
        """The options of a custom worker: what its class says goes before what the manager was
        given."""
        name = self._options["name"]
        said = {
            option: getattr(custom, option) for option in ("worker_type", "queues", "capabilities")
        }
        return {
            **self._options,
            **{
                option: value
                for option, value in said.items()
                if value != getattr(CustomWorker, option)
            },
            "name": None if name is None else f"{name}-{role}"[:100],
            "role": custom.role or role,
            "registry": WholeJobs(custom, self._timeout),
            "health_check": custom.health_check,
        }


class WholeJobs(Registry):
    """A registry in which one worker object handles every type."""

    def __init__(self, custom: CustomWorker, timeout: float | None = None) -> None:
        super().__init__()
        self._types = custom.job_types
        self._handler = WholeJobHandler(custom, timeout)

    def get(self, job_type: str) -> Handler | None:
        return self._handler if self._types is None or job_type in self._types else None

    def types(self) -> tuple[str, ...] | None:
        return self._types


class WholeJobHandler(Handler):
    def __init__(self, custom: CustomWorker, timeout: float | None) -> None:
        async def process(ctx: Context) -> Any:
            job = ctx.job
            identifier = job_of(job.fence)
            payload = msgspec.json.decode(job.payload)
            incoming = IncomingJob(
                identifier, job.job_type, job.queue, payload, job.attempt, created_at(identifier)
            )
            return await custom.process_job(incoming, ctx)

        super().__init__(process, job_type=type(custom).__name__, queue="default", timeout=timeout)

    def decode(self, payload: bytes) -> tuple[Any, ...]:  # noqa: ARG002 - the worker object reads the payload itself
        return ()
