"""A slot that runs one job at a time, and what it has done so far."""

import asyncio
from typing import Any

from taskforge.pool.buffer import Buffer
from taskforge.pool.handle import Handle
from taskforge.pool.runners import Runner
from taskforge.pool.stats import WorkerStats


class PoolWorker:
    __slots__ = (
        "buffer",
        "busy_seconds",
        "failed",
        "handle",
        "name",
        "number",
        "runner",
        "succeeded",
        "task",
    )

    def __init__(self, number: int, name: str, runner: Runner | None, buffer: Buffer) -> None:
        self.number = number
        self.name = name
        self.runner = runner
        self.buffer = buffer  # its own, or the one that all share
        self.handle: Handle[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.succeeded = 0
        self.failed = 0
        self.busy_seconds = 0.0

    def stats(self, *, owns_buffer: bool) -> WorkerStats:
        return WorkerStats(
            name=self.name,
            is_busy=self.task is not None,
            buffered=len(self.buffer) if owns_buffer else 0,
            succeeded=self.succeeded,
            failed=self.failed,
            busy_seconds=self.busy_seconds,
        )
