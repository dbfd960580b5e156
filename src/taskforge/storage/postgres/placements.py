"""Puts jobs that are changed into their new places, all of a call in a few statements."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from taskforge.domain.changes import Place
from taskforge.domain.errors import Conflict
from taskforge.domain.ids import RAISED_BY_RESTORE, fence_of, is_first
from taskforge.domain.job import JobStatus
from taskforge.storage.catalog import spot_of
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.located_jobs import LocatedJob


class Placement(NamedTuple):
    """A job whose move nothing refuses any more."""

    job: LocatedJob
    move: Place
    queue: int
    lane: int
    key: int  # what stands for its fairness key there

    @property
    def spot(self) -> int:
        return spot_of(self.lane, self.key)

    @property
    def is_final(self) -> bool:
        return self.job.standing.status.is_final

    @property
    def stays(self) -> bool:
        """Whether it keeps its time. What waits for a handler that fits gets another chance by any
        change."""
        return self.move.at is None and not self.job.place.get("parked")


class Placements:
    def __init__(self, connections: PostgresConnections, connection: Connection) -> None:
        self._connections = connections
        self._connection = connection
        self._now = connections.bound_now()

    async def payload_sizes(self, jobs: Sequence[UUID]) -> dict[UUID, int]:
        return dict(map(tuple, await self._fetch("payload_sizes", list(jobs)))) if jobs else {}

    async def take_unique_key(self, facts: Any) -> None:
        rows = await self._fetch(
            "take_keys",
            facts["project"],
            [0],
            [facts["unique_key"]],
            [facts["id"]],
            [None],
            [None],
            self._now,
        )
        if rows[0]["job"] != facts["id"]:
            key, holder = facts["unique_key"], rows[0]["job"]
            raise Conflict(
                f"job {facts['id']} cannot run again: its unique key {key!r} is now held by job "
                f"{holder}"
            )

    async def carry_out(self, placements: Sequence[Placement]) -> dict[UUID, JobStatus]:
        """What the jobs are then."""
        if not placements:
            return {}
        fences = await self._leave(placements)
        times = await self._rewrite(placements)
        rows = [
            self._row(one, fence, times[one.job.facts["id"]])
            for one, fence in zip(placements, fences, strict=True)
        ]
        placed = await self._fetch("place", *map(list, zip(*rows, strict=True)), self._now)
        waits = dict(map(tuple, placed))
        return {
            one.job.facts["id"]: JobStatus.SCHEDULED if waits[fence] else JobStatus.PENDING
            for one, fence in zip(placements, fences, strict=True)
        }

    async def _leave(self, placements: Sequence[Placement]) -> list[UUID]:
        """Their fences from here on."""
        final = [one.job for one in placements if one.is_final]
        fences = {one.job.facts["id"]: one.job.place.get("fence") for one in placements}
        if final:
            jobs = [job.facts["id"] for job in final]
            epochs = [job.place["epoch"] for job in final]
            last = await self._fetch("last_epochs", jobs, epochs, RAISED_BY_RESTORE)
            for job, epoch in last:
                fences[job] = fence_of(job, epoch + 1)
            queues = [job.facts["queue"] for job in final]
            await self._fetch("leave_finished", jobs, queues)
        live = [one.job.place["fence"] for one in placements if not one.is_final]
        if live:
            await self._fetch("leave_places", live)
        return [fences[one.job.facts["id"]] for one in placements]

    async def _rewrite(self, placements: Sequence[Placement]) -> dict[UUID, Any]:
        """Their times, of which those that have passed no longer hold for what was finished. All
        are of one change: its payload and what it does with origins are the same for all."""
        move = placements[0].move
        rows = await self._fetch(
            "rewrite",
            [one.job.facts["id"] for one in placements],
            [one.queue for one in placements],
            [one.move.priority for one in placements],
            [one.is_final for one in placements],
            move.payload,
            move.clear_origin,
            self._now,
        )
        return {row["id"]: row for row in rows}

    @staticmethod
    def _row(one: Placement, fence: UUID, times: Any) -> tuple[Any, ...]:
        """As `place.sql` wants it."""
        facts, place, move, keeps = one.job.facts, one.job.place, one.move, one.stays
        keeps_time = keeps and not one.is_final
        return (
            fence,
            facts["id"],
            facts["project"],
            one.lane,
            move.attempt,
            facts["max_attempts"] if move.max_attempts is None else move.max_attempts,
            move.crashes,
            facts["unique_key"] is not None if one.is_final else place["keyed"],
            place.get("due") if keeps_time else codec.instant(move.at),
            codec.seconds(move.at),
            place.get("turn") if keeps_time else None,
            # A start-by time counts until the first start.
            times["until"] if is_first(fence) else times["deadline"],
            keeps and one.job.standing.status is JobStatus.SCHEDULED,
            one.key or None,
        )

    async def _fetch(self, name: str, *arguments: Any) -> list[Any]:
        return await self._connection.fetch(self._connections.sql(name), *arguments)
