"""The cells of rollups, for those who ask how executions went."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from taskforge.domain.custom_value import CustomValues
from taskforge.domain.ids import first_id_at
from taskforge.domain.rollup import ANY_WORKER, Cell, Gauge, Grain, decode_cell
from taskforge.ports.records import Records, Step
from taskforge.storage.records.cluster import held

SAMPLES_AT_ONCE = 500
MINUTE = timedelta(minutes=1)
SETTLE = timedelta(seconds=5)  # what was enqueued within a minute has committed by then
MOST_ARREARS = timedelta(hours=1)
Gauges = Mapping[Gauge, float]
_encode = msgspec.json.Encoder().encode


class FoundScope(msgspec.Struct, frozen=True):
    number: int
    project: int
    queue_id: UUID | None
    queue: str
    job_type: str
    worker: UUID


class _Mark(msgspec.Struct, frozen=True):
    until: datetime | None


class _Due(msgspec.Struct, frozen=True):
    step: int
    start: int


class _Row(msgspec.Struct, frozen=True):
    scope: int
    start: int
    cell: bytes


class RollupRecords:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def of_project(self, project: int) -> list[FoundScope]:
        return await self._records.look(FoundScope, "scope_of_project", project, ANY_WORKER)

    async def of_queue(self, project: int, queue: UUID, worker: UUID | None) -> list[FoundScope]:
        """Of all that ran in a queue, or of what one worker ran in it."""
        who = worker or ANY_WORKER
        return await self._records.look(FoundScope, "scope_of_queue", project, queue, who)

    async def of_job_type(self, project: int, job_type: str) -> list[FoundScope]:
        return await self._records.look(
            FoundScope, "scope_of_job_type", project, job_type, ANY_WORKER
        )

    async def of_worker(self, project: int, worker: UUID) -> list[FoundScope]:
        return await self._records.look(FoundScope, "scope_of_project", project, worker)

    async def queues(self, project: int, after: str, limit: int) -> list[FoundScope]:
        """In the order of their names, behind this one."""
        return await self._records.look(
            FoundScope, "scopes_of_queues", project, after, ANY_WORKER, limit
        )

    async def job_types(self, project: int, after: str, limit: int) -> list[FoundScope]:
        return await self._records.look(
            FoundScope, "scopes_of_job_types", project, after, ANY_WORKER, limit
        )

    async def workers(self, project: int, limit: int) -> list[FoundScope]:
        return await self._records.look(FoundScope, "scopes_of_workers", project, ANY_WORKER, limit)

    async def add_samples(
        self,
        term: int,
        minute: datetime,
        queues: Mapping[UUID, Gauges],
        workers: Mapping[UUID, tuple[int, Gauges]],
    ) -> None:
        """What a leader saw of queues, and of workers with their projects."""
        steps = [
            Step("add_queue_sample", (queue, minute, _encode(seen).decode()))
            for queue, seen in queues.items()
        ]
        steps += [
            Step("add_worker_sample", (project, worker, minute, _encode(seen).decode()))
            for worker, (project, seen) in workers.items()
        ]
        for start in range(0, len(steps), SAMPLES_AT_ONCE):
            await self._records.write([held(term), *steps[start : start + SAMPLES_AT_ONCE]])

    async def add_customs(
        self, project: int, now: datetime, values: Mapping[str, CustomValues]
    ) -> None:
        """What handlers counted, by job type and name."""
        minute = now.replace(second=0, microsecond=0)
        await self._records.write(
            [
                Step("add_custom_values", (project, job_type, minute, _encode(named).decode()))
                for job_type, named in values.items()
            ]
        )

    async def count_arrivals(self, term: int, now: datetime) -> int:
        """Jobs that were enqueued, minute by minute, up to the last one that is over for a while:
        how many minutes that were. Whoever led before has counted up to where this begins."""
        last = (now - SETTLE).replace(second=0, microsecond=0)
        [mark] = await self._records.look(_Mark, "arrivals_until")
        at = last - MINUTE if mark.until is None else max(mark.until, last - MOST_ARREARS)
        minutes = 0
        while at < last:
            ids = first_id_at(at), first_id_at(at + MINUTE)
            await self._records.write(
                [
                    held(term),
                    Step("count_arrivals", (*ids, at)),
                    Step("move_arrivals_until", (at + MINUTE,)),
                ]
            )
            at, minutes = at + MINUTE, minutes + 1
        return minutes

    async def due(self, scopes: Sequence[int]) -> Collection[tuple[int, int]]:
        """Hours and days that are not summed up yet: step and start."""
        found = await self._records.look(_Due, "rollups_due_of", list(scopes))
        return {(one.step, one.start) for one in found}

    async def cells(
        self, scopes: Sequence[int], step: Grain, since: int, until: int
    ) -> list[tuple[int, int, Cell]]:
        """Scope, start and cell of each."""
        rows = await self._records.look(
            _Row, "cells_between", list(scopes), int(step), since, until
        )
        return [(row.scope, row.start, decode_cell(row.cell)) for row in rows]
