"""The app object: where the jobs are, which functions run them, and how to reach both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import urlsplit
from uuid import UUID

from taskforge.domain.changes import CancelJob, Changed, JobChange, RedriveJob
from taskforge.domain.decoded import (
    DecodedExecution,
    DecodedJob,
    DecodedLine,
    decode_execution,
    decode_job,
    decode_line,
)
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Inserted, NewJob, Refused, StoredJob
from taskforge.domain.log import level_named
from taskforge.node import make_node
from taskforge.operations import jobs as operations
from taskforge.operations.explaining import explain_job
from taskforge.ports.engine import AnyEngine
from taskforge.ports.jobs import Transactional
from taskforge.sdk.connections import Connections
from taskforge.sdk.declarations import Declarations
from taskforge.sdk.doors import Doors
from taskforge.sdk.events import AppEvent, follow
from taskforge.sdk.handles import JobHandle, id_of
from taskforge.sdk.hidden_loop import HiddenLoop
from taskforge.sdk.job_classes import ClassHandler, Job
from taskforge.sdk.jobs import JobDecorator, JobFunction
from taskforge.sdk.keeping import choose_options, keeper_maker
from taskforge.sdk.options import EnqueueOptions, Options
from taskforge.sdk.waiter import has_ended
from taskforge.settings import Settings
from taskforge.wiring import make_engine, with_absolute_path, work_source
from taskforge.worker.job_spans import trace_jobs
from taskforge.worker.registry import Handler, Registry
from taskforge.worker.self_report import HealthCheck
from taskforge.worker.worker import LiveWorker

T = TypeVar("T")


class TaskForge(Declarations, Doors):
    """`forge = TaskForge("sqlite:///jobs.db")`: one object per application, made at import,
    connected when first used."""

    def __init__(
        self, url: str | None = None, *, settings: Settings | None = None, **flags: Any
    ) -> None:
        """Without a URL, TASKFORGE_URL or taskforge.toml decides. Other settings may be given by
        name."""
        self.settings = settings or Settings.load({"url": url, **flags})
        super().__init__()
        self._own = self._connections = self.connections(lambda: make_engine(self._store))
        self._hidden = HiddenLoop()

    @property
    def settings(self) -> Settings:
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._settings = settings
        self._store = with_absolute_path(settings)  # what was written is shown, this is used

    # --- Declaring, beside what `Declarations` has ---

    @property
    def job(self) -> JobDecorator:
        """Make a function the handler of a job type: `@forge.job`, or with options,
        `@forge.job(queue="emails")`. Async functions run on the event loop, plain ones in threads,
        and `kind="process"` ones in processes that can be killed. `aliases` are names it had
        before, `depends_on` names what it cannot do without: where that fails too often, its jobs
        wait."""
        return JobDecorator(self._register)

    def _register(
        self,
        call: Callable[..., Any],
        *,
        job_type: str | None = None,
        aliases: tuple[str, ...] = (),
        **options: Any,
    ) -> JobFunction[..., Any, ..., Any]:
        name = job_type or str(getattr(call, "__name__", "job"))
        handler = Handler(call, job_type=name, **{"queue": "default", **options})
        self._add(handler, aliases)
        return JobFunction(self, handler)

    # --- Connecting ---

    async def engine(self) -> AnyEngine:
        """The engine of this event loop, connected and with every declared queue in place."""
        return await self._connections.engine()

    async def close(self) -> None:
        await self._connections.close()

    def connections(self, make: Callable[[], AnyEngine]) -> Connections:
        """Connections of this app to another store, for `use`."""
        return Connections(make, self._declared)

    def use(self, connections: Connections) -> Connections:
        """Reach jobs through these from now on; answers with what was used before. Tests put a
        temporary store in place so."""
        before, self._connections = self._connections, connections
        return before

    async def __aenter__(self) -> Self:
        await self.engine()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- Enqueueing ---

    async def insert(self, job: NewJob) -> Inserted:
        engine = await self.engine()
        return await operations.enqueue(engine, engine.home, job)

    async def insert_many(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """All jobs in one go. If any is refused, the first refusal is raised; those accepted are
        enqueued all the same."""
        engine = await self.engine()
        return _accepted(await operations.send(jobs, partial(engine.insert, engine.home)))

    async def insert_within(self, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Enqueue inside your own PostgreSQL transaction, on your asyncpg connection: the jobs
        exist if and when it commits. A refusal is raised; rolling back is then up to you."""
        engine = await self.engine()
        if not isinstance(engine, Transactional):
            raise Invalid(
                "url",
                f"is {urlsplit(self.settings.url).scheme}",
                "use postgresql:// to enqueue within a transaction",
            )
        store = partial(engine.insert_within, connection, engine.home)
        return _accepted(await operations.send(jobs, store))

    async def enqueue(self, job: Job, **options: Any) -> JobHandle[Any]:
        """Enqueue an instance of a job class."""
        return (await self.enqueue_many([self.build(job, **options)]))[0]

    async def enqueue_many(self, jobs: Iterable[NewJob | Job]) -> list[JobHandle[Any]]:
        """Enqueue what `build` made, and instances of job classes, in one go."""
        built = [self.build(job) if isinstance(job, Job) else job for job in jobs]
        return [
            JobHandle(self, one.job, existed=one.existed) for one in await self.insert_many(built)
        ]

    def build(self, job: Job, **options: Unpack[EnqueueOptions]) -> NewJob:
        handler = self.registry.get(type(job).job_type or type(job).__name__)
        if not isinstance(handler, ClassHandler):
            raise NotFound("job class", type(job).__name__)
        if handler.arguments is not type(job):
            known = f"the job type {handler.job_type!r} is that of {handler.arguments.__name__}"
            raise Invalid(
                type(job).__name__,
                f"is not registered, {known}",
                "give it a job_type of its own and add it to the app",
            )
        return Options(**options).build(handler, handler.encode_instance(job))

    # --- Looking and steering ---

    def handle(self, job: UUID | str) -> JobHandle[Any]:
        """A handle on a job that was enqueued elsewhere: in another request, by another process.
        Its result is plain JSON."""
        return JobHandle(self, id_of(job))

    async def get(self, job: UUID | str) -> DecodedJob:
        return decode_job(await self.get_stored(job))

    async def get_stored(self, job: UUID | str) -> StoredJob:
        """The job as its store keeps it: payload and result are JSON."""
        job = id_of(job)
        engine = await self.engine()
        found = await engine.get([engine.home], [job])
        if not found:
            raise NotFound("job", str(job))
        return found[0]

    async def explain(self, job: UUID | str) -> Explanation:
        """Why the job is not running."""
        engine = await self.engine()
        return await explain_job(engine, [engine.home], id_of(job))

    async def executions(self, job: UUID | str) -> list[DecodedExecution]:
        """Every try of a job, the first one first."""
        engine = await self.engine()
        return [decode_execution(one) for one in await engine.executions([engine.home], id_of(job))]

    async def logs(
        self,
        job: UUID | str,
        *,
        level: str = "trace",
        after: int = 0,
        limit: int = 1_000,
        offset: int = 0,
        execution: UUID | None = None,
    ) -> list[DecodedLine]:
        """What a job's handlers logged (or one execution's), from this level on, and how its
        executions ended, oldest first. For the page behind, pass the id of the last line as
        `after`."""
        engine = await self.engine()
        lines = await engine.logs(
            [engine.home],
            id_of(job),
            least=level_named(level),
            after=after,
            limit=limit,
            offset=offset,
            execution=execution,
        )
        return [decode_line(line) for line in lines]

    async def wait(self, job: UUID | str) -> DecodedJob:
        """The job once it has ended, or is in its dead letter queue."""
        return decode_job(await self.wait_stored(job))

    async def wait_stored(self, job: UUID | str) -> StoredJob:
        return await self._connections.wait(id_of(job))

    async def results(
        self, handles: Sequence[JobHandle[T]], timeout: float | None = None
    ) -> list[T]:
        """What each of these jobs returned, in their order; the first one that failed raises."""
        engine = await self.engine()
        jobs = await engine.get([engine.home], [handle.id for handle in handles])
        ended = {job.id: job for job in jobs if has_ended(job)}
        waiting = [handle for handle in handles if handle.id not in ended]
        later = await asyncio.gather(*(handle.result(timeout) for handle in waiting))
        came = dict(zip((handle.id for handle in waiting), later, strict=True))
        return [
            came[handle.id] if handle.id in came else handle.read_result(ended[handle.id])
            for handle in handles
        ]

    async def cancel(self, job: UUID | str, reason: str = "cancelled by request") -> Changed:
        return await self.change(job, CancelJob(reason))

    async def redrive(self, job: UUID | str) -> Changed:
        """Send a dead-lettered job back to where it came from, with a fresh budget."""
        return await self.change(job, RedriveJob())

    async def change(self, job: UUID | str, verb: JobChange) -> Changed:
        job = id_of(job)
        engine = await self.engine()
        return await operations.change(engine, [engine.home], job, verb)

    async def events(
        self, topic: str = "", *, queues: Sequence[UUID | str] = (), after: str | None = None
    ) -> AsyncIterator[AppEvent]:
        """What happens, as it happens: `async for event in forge.events("job.failed"): …`. Topics
        that begin so; of these queues; `after`: the cursor of an event to go on behind, else from
        now on."""
        async for event in follow(await self.engine(), after, topic, queues):
            yield event

    # --- Working ---

    async def worker(
        self,
        *,
        health_check: HealthCheck | None = None,
        registry: Registry | None = None,
        **options: Any,
    ) -> LiveWorker:
        """A worker on this app's jobs, not yet running. `options` are those of `WorkerOptions`."""
        if self._connections is not self._own:
            problem = "would keep its lease in the app's own store while a test's takes its place"
            raise Invalid("worker()", problem, "inside a Sandbox jobs are run with box.run()")
        engine = await self.engine()
        chosen = choose_options(self.settings, options)
        worker = LiveWorker(
            work_source(engine, standing=True),
            registry or self.registry,
            chosen,
            keeper_maker(self._store, chosen.lease_seconds),
            middleware=self.middlewares,
            failure_hooks=self.failure_hooks,
            health_check=health_check,
        )
        trace_jobs(
            worker.executor,
            worker.name,
            lambda: None if worker.registered is None else worker.registered.worker,
        )
        return worker

    async def work(self, **options: Any) -> None:
        """Run a worker and the upkeep in this process until cancelled or until one of them fails;
        then stop gracefully."""
        worker = await self.worker(**options)
        await make_node(await self.engine(), self.settings, workers=[worker]).run_until_cancelled()

    # --- From code that is not async ---

    def sync(self, call: Coroutine[Any, Any, T]) -> T:
        """Run one of our coroutines from plain code: `handle = forge.sync(send.enqueue("a"))`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            call.close()
            raise RuntimeError("sync() was called inside an event loop; await the call instead")
        return asyncio.run_coroutine_threadsafe(call, self.hidden_loop()).result()

    def hidden_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop behind `sync`, in a thread of its own."""
        return self._hidden.loop()

    @property
    def has_hidden_loop(self) -> bool:
        return self._hidden.has_begun

    def close_sync(self) -> None:
        """Close what `sync` opened. Not needed before a process ends."""
        self._hidden.close(self.close)


def _accepted(answers: Sequence[Inserted | Refused]) -> list[Inserted]:
    # By type: `isinstance` says no to a struct five times as slowly.
    accepted = [answer for answer in answers if type(answer) is Inserted]
    if len(accepted) < len(answers):
        raise next(answer.error for answer in answers if isinstance(answer, Refused))
    return accepted
