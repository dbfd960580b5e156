"""Fires schedules that are due: reads them, asks the domain what to do, and lets the store do it
all at once, under the leader's term."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from taskforge.control.leader import Term
from taskforge.domain.firing import Fired, Firing, plan
from taskforge.domain.ids import IdMint
from taskforge.domain.job import StoredJob
from taskforge.domain.schedule import Overlap, Schedule
from taskforge.operations.limits.slot_admission import SlotAdmission
from taskforge.services import Periodic, ServiceHealth
from taskforge.storage.records.schedules import ScheduleRecords

logger = logging.getLogger("taskforge.scheduler")
AT_ONCE = 1_000
LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.01


class FiringStore(Protocol):
    async def now(self) -> datetime: ...
    async def get(self, projects: Sequence[int], jobs: Sequence[UUID]) -> list[StoredJob]: ...
    async def fire(self, firings: Sequence[Firing], term: int | None) -> list[Fired]: ...


class Scheduler:
    name = "scheduler"

    def __init__(
        self, store: FiringStore, schedules: ScheduleRecords, admission: SlotAdmission
    ) -> None:
        self._store = store
        self._schedules = schedules
        self._admission = admission
        # Ids are stamped with the store's time, whatever this machine's clock says: history is
        # laid out by it.
        self._milliseconds = 0
        self._mint = IdMint(lambda: self._milliseconds)
        self._rounds: Periodic | None = None

    async def run(self, term: Term) -> None:
        self._rounds = rounds = Periodic(
            self.name, lambda: self.once(term), seconds=LONGEST_REST_SECONDS
        )
        rounds.begin()
        while True:
            term.check()
            if not await rounds.run_once():
                await asyncio.sleep(await self._rest())

    def health(self) -> list[ServiceHealth]:
        return [] if self._rounds is None else self._rounds.health()

    async def once(self, term: Term) -> int:
        """Fire what is due now, at most so much; how many schedules that were."""
        now = await self._store.now()
        due = await self._schedules.due(now, AT_ONCE)
        if not due:
            return 0
        running = await self._running(due)
        self._milliseconds = int(now.timestamp() * 1000)
        firings = [self._firing(schedule, now, running) for schedule in due]
        async with self._admission.admit(firings) as admitted:
            term.check()
            fired = await self._store.fire(admitted, term.number)
        jobs = sum(one.jobs for one in fired)
        logger.debug("%d schedules were due, %d jobs made", len(due), jobs)
        return len(due)

    def _firing(self, schedule: Schedule, now: datetime, running: set[UUID]) -> Firing:
        planned = plan(schedule, now, runs=schedule.last_job in running)
        return Firing(
            schedule=schedule.number,
            name=schedule.name,
            project=schedule.project,
            version=schedule.version,
            expected_next=schedule.next_at,
            plan=planned,
            jobs=tuple(schedule.job.job(self._mint()) for _ in planned.fires),
            cancels=schedule.last_job if planned.replaces else None,
        )

    async def _running(self, due: Sequence[Schedule]) -> set[UUID]:
        """Of the last jobs that somebody asks about, those that have not ended."""
        asked = {
            schedule.last_job: schedule.project
            for schedule in due
            if schedule.timing.overlap is not Overlap.ALLOW and schedule.last_job is not None
        }
        if not asked:
            return set()
        jobs = await self._store.get(list(set(asked.values())), list(asked))
        return {job.id for job in jobs if not job.status.is_final}

    async def _rest(self) -> float:
        """Until the next one is due, or a second: one that is made or edited meanwhile may be
        sooner."""
        soonest = await self._schedules.next_due()
        if soonest is None:
            return LONGEST_REST_SECONDS
        left = (soonest - await self._store.now()).total_seconds()
        return min(LONGEST_REST_SECONDS, max(SHORTEST_REST_SECONDS, left))
