"""What handlers did and workers were told, compared with what the store holds."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.outcome import LEASE_RAN_OUT
from taskforge.domain.query import FIRST
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.ports.engine import Engine


class History:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kills: dict[int, float] = {}  # process id → when it was killed

    def lines(self, what: str | None = None) -> Iterator[dict[str, Any]]:
        for path in self._folder.glob("*.history"):
            for line in path.read_text().splitlines():
                found = json.loads(line)
                if what is None or found["what"] == what:
                    yield found

    def count(self, what: str) -> int:
        return sum(1 for _ in self.lines(what))

    async def violations(self, engine: Engine, acknowledged: set[UUID]) -> list[str]:
        """Everything that must never be: a job lost, accepted twice, or kept with the result of a
        stale worker."""
        held = {job.id: job for job in await jobs(engine, acknowledged)}
        told = Counter(
            (UUID(line["job"]), line["epoch"])
            for line in self.lines("accepted")
            if line["outcome"] == "Success"
        )
        accepted = Counter(job for job, _ in told.elements())
        happened = await _succeeded(engine)
        found: list[str] = []
        for job in acknowledged:
            now = held.get(job)
            if now is None:
                found.append(f"lost: {job} is not in the store")
            elif now.status is not JobStatus.SUCCEEDED:
                found.append(
                    f"lost: {job} is {now.status} ({now.reason}), attempt {now.attempt_count}"
                )
            elif now.result is None or int(bytes(now.result)) != now.epoch:
                found.append(
                    f"stale: {job} has epoch {now.epoch} and the result of "
                    f"{now.result and bytes(now.result)!r}"
                )
            if accepted[job] > 1:
                found.append(f"accepted twice: workers were told so {accepted[job]} times of {job}")
            if happened[job] > 1:
                found.append(f"accepted twice: {job} succeeded {happened[job]} times")
        for job, epoch in told:
            now = held.get(job)
            if now is not None and now.status is JobStatus.SUCCEEDED and now.epoch != epoch:
                found.append(
                    f"accepted twice: {job} was accepted with epoch {epoch}, the store has "
                    f"{now.epoch}"
                )
        return found

    async def rescues(self, engine: Engine, acknowledged: set[UUID]) -> list[float]:
        """How long after its worker was killed each rescued job was free again."""
        workers = await engine.workers([FIRST_PROJECT])
        pids = {key: worker.pid for worker in workers for key in (worker.id, worker.incarnation)}
        took: list[float] = []
        for job in await jobs(engine, acknowledged):
            if job.epoch > 1:
                for execution in await engine.executions([FIRST_PROJECT], job.id):
                    crashed = (
                        execution.error is not None and execution.error.type == "WorkerCrashed"
                    )
                    if (
                        crashed or execution.reason == LEASE_RAN_OUT
                    ) and execution.finished_at is not None:
                        killed = (
                            self.kills.get(pids.get(execution.worker) or 0)
                            if execution.worker
                            else None
                        )
                        if killed is not None:
                            took.append(execution.finished_at.timestamp() - killed)
        return sorted(took)


async def jobs(engine: Engine, wanted: set[UUID]) -> list[StoredJob]:
    ordered = sorted(wanted)
    found: list[StoredJob] = []
    for start in range(0, len(ordered), 500):
        found += await engine.get([FIRST_PROJECT], ordered[start : start + 500])
    return found


async def _succeeded(engine: Engine) -> Counter[UUID]:
    """How often each job succeeded, by the events that were written with it."""
    seen: Counter[UUID] = Counter()
    after = FIRST
    while (events := await engine.events(after, 1_000)).items:
        after = events.cursor
        for event in events.items:
            if event.topic == "job.succeeded":
                seen.update(event.jobs)
    return seen
