"""What a process tells of jobs that were enqueued and started: counted in memory, by queue and
type, and written as one event for each queue now and then. The path of a job pays for a few
additions."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from taskforge.domain.alike import Alike
from taskforge.domain.job import Claimed, Inserted, NewJob, Refused

TICK_SECONDS = 0.5
MOST_TYPES = 20
"""That an event names; jobs of further ones are only counted."""
MOST_QUEUES = 200
"""Of which one tick tells."""
_CLOSING_SECONDS = 2.0
ENQUEUED, STARTED = "job.enqueued", "job.started"
Key = tuple[str, int, str]  # topic, project and the queue's name
_encode = msgspec.json.Encoder().encode


class EventSums:
    def __init__(self, write: Callable[[str], Awaitable[object]], seconds: float | None) -> None:
        """`write` takes the sums as JSON. `seconds`: how often they are told; None: by nobody but
        who calls `tell`."""
        self._write = write
        self._seconds = seconds
        self._counts: dict[Key, dict[str, int]] = {}
        self._lock = threading.Lock()  # SQLite counts claims in its writer's thread
        self._task: asyncio.Task[None] | None = None

    # --- Counting ---

    def inserted(
        self, project: int, jobs: Sequence[NewJob], answers: list[Inserted | Refused]
    ) -> list[Inserted | Refused]:
        """The same answers."""
        made = [type(one) is Inserted and not one.existed for one in answers]
        if type(jobs) is Alike:
            job = jobs.template
            new = {(job.queue, job.job_type): made.count(True)}
        elif all(made):
            new = _by_kind(jobs)
        else:
            new = _by_kind([job for job, is_new in zip(jobs, made, strict=True) if is_new])
        self._add(ENQUEUED, project, new)
        return answers

    def started(self, project: int, claimed: list[Claimed]) -> list[Claimed]:
        """The same jobs."""
        self._add(STARTED, project, _by_kind(claimed))
        return claimed

    def _add(self, topic: str, project: int, new: dict[tuple[str, str], int]) -> None:
        if not new:
            return
        with self._lock:
            for (queue, job_type), count in new.items():
                if not count:
                    continue
                types = self._counts.setdefault((topic, project, queue), {})
                types[job_type] = types.get(job_type, 0) + count

    # --- Telling ---

    def start(self) -> None:
        if self._seconds is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._seconds))

    async def stop(self) -> None:
        """What was not told yet is told now, if the store takes it soon."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, RuntimeError):  # or of a loop that is gone
            await task
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self.tell()

    async def tell(self) -> None:
        sums = self._take()
        if sums:
            # they are hints: what a store that is away does not take is not told
            with contextlib.suppress(Exception):
                await self._write(_encode(sums).decode())

    async def _run(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self.tell()

    def _take(self) -> list[dict[str, object]]:
        with self._lock:
            counts, self._counts = self._counts, {}
        sums: list[dict[str, object]] = []
        for (topic, project, queue), types in list(counts.items())[:MOST_QUEUES]:
            named = dict(sorted(types.items(), key=lambda one: -one[1])[:MOST_TYPES])
            details = _encode({"count": sum(types.values()), "types": named}).decode()
            sums.append({"topic": topic, "project": project, "queue": queue, "details": details})
        return sums


def _by_kind(jobs: Sequence[NewJob | Claimed]) -> dict[tuple[str, str], int]:
    """How many of each queue and type. Neighbours are mostly alike: a run of them is counted as
    one."""
    counts: dict[tuple[str, str], int] = {}
    queue = job_type = ""
    run = 0
    for job in jobs:
        if job.job_type == job_type and job.queue == queue:
            run += 1
            continue
        if run:
            counts[queue, job_type] = counts.get((queue, job_type), 0) + run
        queue, job_type, run = job.queue, job.job_type, 1
    if run:
        counts[queue, job_type] = counts.get((queue, job_type), 0) + run
    return counts
