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
        self._options = {"slots": max_concurrent_jobs, **options}
        self._name = worker_id
        self._factories: dict[str, Callable[[], CustomWorker]] = {}
        self._workers: list[Worker] = []
        self._running: list[asyncio.Task[None]] = []
        self._keeping: asyncio.Task[None] | None = None

    def register(self, role: str, factory: Callable[[], CustomWorker]) -> None:
        """`factory` makes the worker for a role when the manager starts."""
        if role in self._factories:
            raise Invalid("role", f"{role!r} has a factory already", "register each role once")
        self._factories[role] = factory

    async def start(self) -> None:
        """Start and return when every worker is registered and takes jobs."""
        if self._running:
            raise Invalid("start()", "was called twice", "call shutdown() first")
        engine = await self._forge.engine()
        if self._forge.registry.types():
            self._workers.append(await self._forge.worker(name=self._name, **self._options))
        for role, factory in self._factories.items():
            self._workers.append(await self._custom(role, factory()))
        if not self._workers:
            raise Invalid("start()", "has nothing to run", "decorate a handler or register a factory first")
        self._running = [asyncio.create_task(worker.run()) for worker in self._workers]
        self._keeping = asyncio.create_task(self._forge.upkeep(engine).run())
        for worker in self._workers:
            await worker.ready.wait()

    async def shutdown(self) -> None:
        """Stop claiming, finish what runs within the grace time, hand back the rest."""
        for worker in self._workers:
            worker.stop()
        await asyncio.gather(*self._running)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self._workers, self._running, self._keeping = [], [], None

    async def _custom(self, role: str, custom: CustomWorker) -> Worker:
        return await self._forge.worker(
            health_check=custom.health_check,
            registry=WholeJobs(custom),
            name=None if self._name is None else f"{self._name}-{role}"[:100],
            role=custom.role or role,
            worker_type=custom.worker_type,
            queues=custom.queues,
            capabilities=custom.capabilities,
            **self._options,
        )


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
