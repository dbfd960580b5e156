"""Upkeep: bounded slices that any process may run at any time, each conditional on the database's
clock."""

from collections.abc import Iterable
from uuid import UUID

import asyncpg

from taskforge.domain.changes import SKIPPED_BY_ALL, ExpireJob
from taskforge.domain.claim import Lapsed
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.ids import epoch_of
from taskforge.domain.outcome import (
    HELD_UP,
    LEASE_RAN_OUT,
    MISFIT_SECONDS,
    MOST_UNEXPLAINED,
    NOT_BEGUN,
    Attempt,
    Crashed,
    DeadlinePassed,
    DiedBeforeStart,
    HandBackOutcome,
    HeartbeatMissed,
    LeaseRanOut,
    Outcome,
    TimedOut,
    park_seconds,
)
from taskforge.storage.catalog import Card, Lane, Taker, may_take, spot_of
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.claims import PostgresClaims
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.job_changes import PostgresJobChanges
from taskforge.storage.postgres.queues import PostgresQueues
from taskforge.storage.postgres.signals import Signals
from taskforge.storage.postgres.silences import bridge

_SILENCE = -1


# at so many times as many skipped jobs as may be changed: of the first, all may wait for a worker
# that is busy
LOOKS = 10
_BEFORE_ALL = UUID(int=0)


class PostgresUpkeep:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        signals: Signals,
        claims: PostgresClaims,
        job_changes: PostgresJobChanges,
        queues: PostgresQueues,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals
        self._claims = claims
        self._job_changes = job_changes
        self._queues = queues
        self._walked = _BEFORE_ALL  # the skipped job at which the next look goes on

    async def stage(self, limit: int) -> int:
        async with self._connections.connection() as connection:
            rows = await connection.fetch(
                self._connections.sql("stage"), limit, self._connections.bound_now(), MISFIT_SECONDS
            )
        if rows:
            if any(row["key"] is not None for row in rows):
                self._claims.look_from_head()
            self._signals.send(
                [
                    (row["project"], spot_of(row["lane"], row["key"] or NO_KEY), row["turn"])
                    for row in rows
                ]
            )
        return sum(row["count"] for row in rows)

    async def lapsed(
        self, limit: int, *, unless_within: float = 0.0, rhythm: float | None = None
    ) -> list[Lapsed]:
        excuses = (LEASE_RAN_OUT, HELD_UP, MOST_UNEXPLAINED, NOT_BEGUN)
        rows = await self._connections.fetch(
            "lapsed", limit, self._connections.bound_now(), unless_within, rhythm, *excuses
        )
        if rows and rows[0]["why"] == _SILENCE:
            await bridge(self._connections)
            rows = await self._connections.fetch(
                "lapsed", limit, self._connections.bound_now(), 0.0, rhythm, *excuses
            )
        if not rows:
            return []
        lanes = await self._catalog_cache.lanes({row["lane"] for row in rows})
        cards = await self._newest_cards(lanes.values())
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
                case 6:
                    outcome = DiedBeforeStart(row["worker"], row["losses"])
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
            settings = cards[lanes[row["lane"]].queue].queue.settings
            found.append(Lapsed(row["fence"], attempt, outcome, settings))
        return found

    async def expire(self, limit: int) -> int:
        overdue = await self._connections.fetch("overdue", limit, self._connections.bound_now())
        late = [row for row in overdue if row["deadline"]]
        expired = [row for row in overdue if not row["deadline"]]
        count = await self._job_changes.change_rows(late, ExpireJob("deadline passed"))
        count += await self._job_changes.change_rows(expired, ExpireJob("expired"))
        skipped, takers = await self._skipped_by_all(limit)
        unfit = {
            row["fence"]: park_seconds(row["misfit_seconds"])
            for row in skipped
            if row["misfit_seconds"] is not None
        }
        count += await self._park(unfit, takers)
        count += await self._offer_parked(limit)
        count += await self._job_changes.change_rows(
            [row for row in skipped if row["fence"] not in unfit], ExpireJob(SKIPPED_BY_ALL)
        )
        return count + await self._queues.cancel_jobs_of_deleted(limit)

    async def _newest_cards(self, lanes: Iterable[Lane]) -> dict[int, Card]:
        """The queues of these lanes as they are now: this process may neither insert nor claim, and
        would hear of a change nowhere else."""
        queues: dict[int, set[int]] = {}
        for lane in lanes:
            queues.setdefault(lane.project, set()).add(lane.queue)
        cards: dict[int, Card] = {}
        for project, numbers in queues.items():
            await self._catalog_cache.newest(project)
            cards |= await self._catalog_cache.cards(project, numbers)
        return cards

    async def _skipped_by_all(self, limit: int) -> tuple[list[asyncpg.Record], list[Taker]]:
        """Up to `limit` jobs that every live worker able to take them has skipped, and the workers
        that are there. Each look goes on where the last one ended, and then begins anew: whatever
        waits for a busy worker keeps nobody else's job from being looked at."""
        rows = await self._connections.fetch(
            "skipped", LOOKS * limit, self._connections.bound_now(), self._walked
        )
        self._walked = rows[-1]["fence"] if rows and len(rows) == LOOKS * limit else _BEFORE_ALL
        if not rows:
            return [], []
        takers = [
            codec.taker(row)
            for row in await self._connections.fetch("takers", self._connections.bound_now())
        ]
        lanes = await self._catalog_cache.lanes({row["lane"] for row in rows})
        cards = await self._newest_cards(lanes.values())
        able: dict[int, list[Taker]] = {}
        found = []
        for row in rows:
            lane = lanes.get(row["lane"])
            if lane is not None and lane.number not in able:
                card = cards[lane.queue]
                able[lane.number] = [taker for taker in takers if may_take(taker, card, lane)]
            fit, unwilling = able.get(row["lane"]), set(row["skipped"])
            if fit and all(
                taker.worker in unwilling or taker.incarnation in unwilling for taker in fit
            ):
                found.append(row)
                if len(found) == limit:
                    self._walked = row["fence"]
                    break
        return found, takers

    async def _park(self, unfit: dict[UUID, float], takers: list[Taker]) -> int:
        """Jobs whose arguments fit none of these workers wait out of the way of claims, each so
        many seconds."""
        parked = {fence: seconds for fence, seconds in unfit.items() if seconds > 0}
        due = [fence for fence in unfit if fence not in parked]
        count = len(due)
        if parked:
            count += len(
                await self._connections.fetch(
                    "park", list(parked), list(parked.values()), self._connections.bound_now()
                )
            )
            # Whoever registered since these workers were read may have found nothing parked; who
            # comes from here on finds it.
            await self._connections.fetch(
                "missed", [taker.incarnation for taker in takers], self._connections.bound_now()
            )
        if due:
            await self._connections.fetch("offer_again", due)
            self._claims.look_from_head()
            self._signals.send(None)
        return count

    async def _offer_parked(self, limit: int) -> int:
        """What registrations have left to do: one offers the first few jobs only, or may have
        failed at it."""
        offered = 0
        while offered < limit:
            rows = await self._connections.fetch(
                "unpark", limit - offered, self._connections.bound_now(), None
            )
            if not rows:
                break
            offered += rows[0]["offered"]
        return offered

    async def fold_tallies(self, limit: int) -> int:
        async with self._connections.connection() as connection:
            tallies = await connection.fetchval(self._connections.sql("fold_tallies"), limit)
        return int(tallies)
