"""A worker without a process, a lease to keep or a wait: it runs what can be claimed, and stops."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from taskforge.domain.errors import LeaseLost
from taskforge.domain.ids import job_of
from taskforge.domain.worker import NewWorker, Sample
from taskforge.operations.work.completion import StoreSource
from taskforge.ports.engine import Engine
from taskforge.ports.work_source import Completion
from taskforge.sdk.app import TaskForge
from taskforge.worker.executor import Executor
from taskforge.worker.job_spans import trace_jobs
from taskforge.worker.reporter import Reporter, job_logging

SWEEP_SECONDS = 0.05
LEASE_SECONDS = 10 * 365 * 86_400.0  # a test may move the clock as far as it likes


class Gathered(list[Completion]):
    """Outcomes that whoever gathers them reports when it likes."""

    unsent = 0

    def put(self, completion: Completion) -> None:
        self.append(completion)

    async def drained(self) -> None:
        return


class InlineWorker:
    def __init__(
        self,
        forge: TaskForge,
        engine: Engine,
        *,
        slots: int,
        queues: tuple[str, ...] | None,
        capabilities: Mapping[str, Any],
    ) -> None:
        self._registry = forge.registry
        self._queues = queues
        self._capabilities = dict(capabilities)
        self._slots = slots
        self._source = StoreSource(engine, engine.home, chance=lambda: 0.5)
        self._reporter = Reporter(self._source, self._lost)
        self._ended = Gathered()
        self._executor = Executor(
            forge.registry,
            self._reporter,
            self._ended,
            slots=slots,
            middleware=forge.middlewares,
            failure_hooks=forge.failure_hooks,
        )
        trace_jobs(self._executor, "inline")

    async def run(self, most: int, *, complain: bool) -> list[UUID]:
        """The jobs that ran, each once, in the order in which they ended."""
        ran: dict[UUID, None] = {}
        self._incarnation = await self._register()
        claimed_in_all = 0
        try:
            with job_logging():
                while claimed_in_all < most or self._executor.busy or self._ended:
                    wanted = min(self._executor.free, most - claimed_in_all)
                    claimed = (
                        await self._source.claim(self._incarnation, wanted, len(self._ended))
                        if wanted > 0
                        else []
                    )
                    claimed_in_all += len(claimed)
                    self._executor.add(claimed)
                    if not claimed and not self._executor.busy and not self._ended:
                        return list(ran)
                    ran |= dict.fromkeys(await self._finish())
            if complain:
                raise RuntimeError(
                    f"{most:,} jobs ran and more may be ready: do handlers enqueue without end? "
                    f"If not, raise `most`"
                )
            return list(ran)
        finally:
            # It stays registered: a job that it skipped is then known to be skipped by every worker
            # there is.
            await self._reporter.flush_counts()
            await self._executor.close()

    async def _register(self) -> UUID:
        worker = NewWorker(
            name="inline",
            queues=self._queues,
            types=self._registry.types(),
            capabilities=self._capabilities,
            max_concurrent_jobs=self._slots,
            depends_on=self._registry.dependencies(),
        )
        return (await self._source.register(worker, LEASE_SECONDS)).incarnation

    async def _finish(self) -> list[UUID]:
        """Wait for a job to end, and report what has ended. Looks up now and then: a running job
        may have enqueued another."""
        if not self._ended:
            self._executor.freed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._executor.freed.wait()
            self._executor.sweep()
            if self._executor.running:
                await self._hear()
        await self._reporter.flush(self._executor.running)
        ended, self._ended[:] = list(self._ended), []
        if ended:
            await self._source.complete(ended)
        return [job_of(one.job.fence) for one in ended]

    async def _hear(self) -> None:
        """What a worker's lease keeper would be told: jobs to cancel, a lease that is lost."""
        try:
            answer = await self._source.engine.renew(self._incarnation, LEASE_SECONDS, Sample())
        except LeaseLost:
            self._executor.interrupt_all("lost")
            self._incarnation = await self._register()
            return
        for fence in answer.cancelled:
            self._executor.interrupt(fence, "cancel", answer.cancel_reasons.get(fence))

    def _lost(self, fences: Sequence[UUID]) -> None:
        for fence in fences:
            self._executor.interrupt(fence, "lost")
