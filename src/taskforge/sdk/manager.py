"""Workers from Python: custom worker classes, factories by role, and a manager that starts and stops them."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from taskforge.domain.errors import Invalid
from taskforge.domain.ids import created_at, job_of
from taskforge.sdk.app import TaskForge
from taskforge.sdk.crew import Crew
from taskforge.worker.context import Context
from taskforge.worker.registry import Handler, Registry
from taskforge.worker.worker import Worker


class IncomingJob(msgspec.Struct, frozen=True):
    """A job as a custom worker sees it."""

    id: UUID
    job_type: str
    queue: str
    payload: Any
    attempt: int
    created_at: datetime


class CustomWorker:
    """A worker that takes whole jobs instead of having a handler for each type. Subclass it and give `process_job`.

    It may answer like any handler: return a value, raise, or return Snooze, Retry, Fail, Cancel, Skip.
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


class WorkerManager:
    """Runs an application's workers: its handlers, and custom workers made by factories."""

    def __init__(self, forge: TaskForge, *, max_concurrent_jobs: int = 10, worker_id: str | None = None, **options: Any) -> None:
        self._forge = forge
        self._options = {"name": worker_id, "slots": max_concurrent_jobs, **options}
        self._factories: dict[str, Callable[[], CustomWorker]] = {}
        self._is_starting = False
        self._crew: Crew | None = None

    def register(self, role: str, factory: Callable[[], CustomWorker]) -> None:
        """`factory` makes the worker for a role when the manager starts."""
        if role in self._factories:
            raise Invalid("role", f"{role!r} has a factory already", "register each role once")
        self._factories[role] = factory

    async def start(self) -> None:
        """Start and return when every worker is registered and takes jobs, or when shut down before that. If one fails, that is
        raised and nothing is left running."""
        if self._is_starting or self._crew is not None:
            raise Invalid("start()", "was called twice", "call shutdown() first")
        self._is_starting = True
        try:
            engine, workers = await self._forge.engine(), await self._workers()
        finally:
            is_wanted, self._is_starting = self._is_starting, False
        if not is_wanted:
            return
        self._crew = crew = Crew(workers, self._forge.upkeep(engine))
        try:
            await crew.ready()
        except asyncio.CancelledError:
            await self.shutdown()
            raise
        if crew.running.done():
            await self.shutdown()

    async def shutdown(self) -> None:
        """Stop claiming, finish what runs within the grace time, hand back the rest. A second call does not wait for what runs.
        Raises what made a worker or the upkeep fail, if anything did."""
        self._is_starting = False
        crew = self._crew
        if crew is None:
            return
        crew.stop()
        await asyncio.wait([crew.running])
        if self._crew is crew:
            self._crew = None
        await crew.running

    async def _workers(self) -> list[Worker]:
        customs = [self._custom(role, factory()) for role, factory in self._factories.items()]
        chosen = [self._options, *customs] if self._forge.registry.types() else customs
        if not chosen:
            raise Invalid("start()", "has nothing to run", "decorate a handler or register a factory first")
        return [await self._forge.worker(**options) for options in chosen]

    def _custom(self, role: str, custom: CustomWorker) -> dict[str, Any]:
        """The options of a custom worker: what its class says goes before what the manager was given."""
        name = self._options["name"]
        said = {option: getattr(custom, option) for option in ("worker_type", "queues", "capabilities")}
        return {
            **self._options,
            **{option: value for option, value in said.items() if value != getattr(CustomWorker, option)},
            "name": None if name is None else f"{name}-{role}"[:100],
            "role": custom.role or role,
            "registry": WholeJobs(custom),
            "health_check": custom.health_check,
        }


class WholeJobs(Registry):
    """A registry in which one worker object handles every type."""

    def __init__(self, custom: CustomWorker) -> None:
        super().__init__()
        self._types = custom.job_types
        self._handler = WholeJobHandler(custom)

    def get(self, job_type: str) -> Handler | None:
        return self._handler if self._types is None or job_type in self._types else None

    def types(self) -> tuple[str, ...] | None:
        return self._types


class WholeJobHandler(Handler):
    def __init__(self, custom: CustomWorker) -> None:
        async def process(ctx: Context) -> Any:
            job = ctx.job
            identifier = job_of(job.fence)
            payload = msgspec.json.decode(job.payload)
            incoming = IncomingJob(identifier, job.job_type, job.queue, payload, job.attempt, created_at(identifier))
            return await custom.process_job(incoming, ctx)

        super().__init__(process, job_type=type(custom).__name__, queue="default")

    def decode(self, payload: bytes) -> tuple[Any, ...]:  # noqa: ARG002 - the worker object reads the payload itself
        return ()
