"""Upkeep: bounded slices that any process may run at any time, each conditional on the database's clock."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from taskforge.domain.changes import SKIPPED_BY_ALL, CancelJob, Changed, ExpireJob, JobChange
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.ids import epoch_of, first_id_at
from taskforge.domain.outcome import (
    HELD_UP,
    LEASE_RAN_OUT,
    MISFIT_SECONDS,
    MOST_UNEXPLAINED,
    Attempt,
    Crashed,
    DeadlinePassed,
    HandBackOutcome,
    HeartbeatMissed,
    LeaseRanOut,
    Outcome,
    TimedOut,
    park_seconds,
)
from taskforge.domain.queue import longest_retention
from taskforge.domain.worker import FORMER_SECONDS
from taskforge.storage.catalog import Catalog, Taker
from taskforge.storage.engine import Lapsed, Pruned
from taskforge.storage.postgres import codec, partitions
from taskforge.storage.postgres.reader import Reader

_SILENCE = -1


LOOKS = 10  # at so many times as many skipped jobs as may be changed: of the first, all may wait for a worker that is busy
_BEFORE_ALL = UUID(int=0)


class Keeper(Reader):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._kept: dict[str, datetime] = {}
        self._walked = _BEFORE_ALL  # the skipped job at which the next look goes on

    async def stage(self, limit: int) -> int:
        async with self.connection() as connection:
            status = await connection.execute(self.sql("stage"), limit, self.bound_now(), MISFIT_SECONDS)
        staged = _affected(status)
        if staged:
            self.signals.send()
        return staged

    async def newest_catalog(self) -> Catalog:
        """What is remembered, if it still holds: a process that neither inserts nor claims hears of a new version nowhere else."""
        version = await self.value("select version from taskforge.catalog")
        catalog = await self.catalog()
        return catalog if catalog.version == version else await self.catalog(newer_than=catalog.version)

    async def lapsed(self, limit: int, *, unless_within: float = 0.0, rhythm: float | None = None) -> list[Lapsed]:
        excuses = (LEASE_RAN_OUT, HELD_UP, MOST_UNEXPLAINED)
        rows = await self.fetch("lapsed", limit, self.bound_now(), unless_within, rhythm, *excuses)
        if rows and rows[0]["why"] == _SILENCE:
            await self.bridge()
            rows = await self.fetch("lapsed", limit, self.bound_now(), 0.0, rhythm, *excuses)
        if not rows:
            return []
        catalog = await self.newest_catalog()
        found = []
        for row in rows:
            outcome: Outcome
            match row["why"]:
                case 0:
                    outcome = DeadlinePassed()
                case 1:
                    outcome = Crashed(row["worker"])
                case 2:
                    outcome = TimedOut(row["timeout_seconds"])
                case 3:
                    outcome = HeartbeatMissed(row["beat_seconds"])
                case 4:
                    outcome = HandBackOutcome(HELD_UP)
                case _:
                    outcome = LeaseRanOut(row["worker"], row["losses"])
            attempt = Attempt(
                attempt=row["attempt"],
                max_attempts=row["max_attempts"],
                crashes=row["crashes"],
                epoch=epoch_of(row["fence"]),
                cancel_requested=row["cancel_requested"],
                deadline_passed=row["why"] == 0,
            )
            settings = catalog.queues[catalog.lanes[row["lane"]].queue].settings
            found.append(Lapsed(row["fence"], attempt, outcome, settings))
        return found

    async def expire(self, limit: int) -> int:
        overdue = await self.fetch("overdue", limit, self.bound_now())
        late = [row for row in overdue if row["deadline"]]
        expired = [row for row in overdue if not row["deadline"]]
        count = await self._apply(late, ExpireJob("deadline passed"))
        count += await self._apply(expired, ExpireJob("expired"))
        catalog = await self.newest_catalog()
        skipped, takers = await self._skipped_by_all(catalog, limit)
        unfit = {row["fence"]: park_seconds(row["misfit_seconds"]) for row in skipped if row["misfit_seconds"] is not None}
        count += await self._park(unfit, takers)
        count += await self._offer_parked(limit)
        count += await self._apply([row for row in skipped if row["fence"] not in unfit], ExpireJob(SKIPPED_BY_ALL))
        return count + await self.cancel_deleted(catalog, limit)

    async def cancel_deleted(self, catalog: Catalog, limit: int) -> int:
        """Pending and scheduled jobs of deleted queues, among them those whose insert raced with the deletion."""
        dead = [queue.number for queue in catalog.queues.values() if queue.deleted_at is not None]
        lanes = catalog.lanes_of(dead)
        if not lanes:
            return 0
        rows = await self.fetch("orphans", lanes, limit)
        return await self._apply(rows, CancelJob("queue deleted"))

    async def _apply(self, rows: list[asyncpg.Record], change: JobChange) -> int:
        """Change the jobs in these rows (job, fence, project) unless they have moved on since the rows were read."""
        if not rows:
            return 0
        fences = {row["job"]: row["fence"] for row in rows}
        answers = await self.change_standing(list({row["project"] for row in rows}), fences, list(fences), change)
        return sum(isinstance(answer, Changed) for answer in answers)

    async def _skipped_by_all(self, catalog: Catalog, limit: int) -> tuple[list[asyncpg.Record], list[Taker]]:
        """Up to `limit` jobs that every live worker able to take them has skipped, and the workers that are there. Each look goes
        on where the last one ended, and then begins anew: whatever waits for a busy worker keeps nobody else's job from being
        looked at."""
        rows = await self.fetch("skipped", LOOKS * limit, self.bound_now(), self._walked)
        self._walked = rows[-1]["fence"] if rows and len(rows) == LOOKS * limit else _BEFORE_ALL
        if not rows:
            return [], []
        takers = [codec.taker(row) for row in await self.fetch("takers", self.bound_now())]
        able: dict[int, list[Taker]] = {}
        found = []
        for row in rows:
            lane = catalog.lanes.get(row["lane"])
            if lane is not None and lane.number not in able:
                able[lane.number] = [taker for taker in takers if catalog.may_take(taker, lane)]
            fit, unwilling = able.get(row["lane"]), set(row["skipped"])
            if fit and all(taker.worker in unwilling or taker.incarnation in unwilling for taker in fit):
                found.append(row)
                if len(found) == limit:
                    self._walked = row["fence"]
                    break
        return found, takers

    async def _park(self, unfit: dict[UUID, float], takers: list[Taker]) -> int:
        """Jobs whose arguments fit none of these workers wait out of the way of claims, each so many seconds."""
        parked = {fence: seconds for fence, seconds in unfit.items() if seconds > 0}
        due = [fence for fence in unfit if fence not in parked]
        count = len(due)
        if parked:
            count += len(await self.fetch("park", list(parked), list(parked.values()), self.bound_now()))
            # Whoever registered since these workers were read may have found nothing parked; who comes from here on finds it.
            await self.fetch("missed", [taker.incarnation for taker in takers], self.bound_now())
        if due:
            await self.fetch("offer_again", due)
            self.look_from_head()
            self.signals.send()
        return count

    async def _offer_parked(self, limit: int) -> int:
        """What registrations have left to do: one offers the first few jobs only, or may have failed at it."""
        offered = 0
        while offered < limit:
            rows = await self.fetch("unpark", limit - offered, self.bound_now(), None)
            if not rows:
                break
            offered += rows[0]["offered"]
        return offered

    async def fold(self, limit: int) -> int:
        async with self.connection() as connection:
            rollups = await connection.fetchval(self.sql("fold_rollups"), limit)
            tallies = await connection.fetchval(self.sql("fold_tallies"), limit)
        return int(rollups) + int(tallies)

    async def prune(self, retention_days: float, limit: int) -> Pruned:
        now = await self.now()
        catalog = await self.newest_catalog()
        keeps = {queue.number: timedelta(days=queue.settings.retention_days or retention_days) for queue in catalog.queues.values()}
        longest = timedelta(days=longest_retention(catalog.queues.values(), retention_days))
        try:
            await partitions.make_ahead(self, now)
            count = await partitions.drop_old(self, now, now - longest, self._kept)
        except StoreUnavailable:
            count = 0  # a lock that was not to be had; the next slice tries again
        more = count > 0
        for number, keep in keeps.items():
            if count >= limit:
                break
            rows = await self.fetch("prunable", number, first_id_at(now - keep), now - keep, limit - count)
            if rows:
                jobs = [row["job"] for row in rows]
                async with self.connection() as connection:
                    status = await connection.execute(self.sql("remove"), jobs, [number], now - keep, self.bound_now())
                count += _affected(status)
        async with self.connection() as connection:
            await connection.execute(self.sql("prune_rest"), limit, self.bound_now(), longest + timedelta(seconds=FORMER_SECONDS))
            if count:
                await connection.execute(
                    self.in_schema("update taskforge.catalog set pruned_before = greatest(pruned_before, $1)"),
                    now - min(keeps.values()),
                )
        return Pruned(count, more or count >= limit)


def _affected(status: str) -> int:
    """How many rows a statement changed, as its command tag says: "DELETE 3"."""
    return int(status.rsplit(" ", 1)[1])
