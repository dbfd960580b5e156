"""Carries out what operators ask of jobs: locate under lock, ask the domain what the change means,
move."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, assert_never
from uuid import UUID

import asyncpg

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.changes import (
    SKIPPED_BY_ALL,
    AskToStop,
    Changed,
    End,
    Erase,
    ExpireJob,
    JobChange,
    Move,
    Place,
    Remove,
    brings_payload,
    check_change,
    check_payload_fits,
    note_on,
    plan,
)
from taskforge.domain.errors import Conflict, Gone, NotFound, TaskForgeError
from taskforge.domain.failure_kind import group_of, kind_of
from taskforge.domain.fairness import key_in
from taskforge.domain.ids import created_at
from taskforge.domain.job import JobStatus, Refused
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.bookkeeping import enter
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.claims import PostgresClaims
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.located_jobs import Goals, LocatedJob, lock_places, read_standing
from taskforge.storage.postgres.placements import Placement, Placements
from taskforge.storage.postgres.signals import Arrival, Signals

AT_ONCE = 500


class PostgresJobChanges:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        signals: Signals,
        claims: PostgresClaims,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals
        self._claims = claims

    async def change(
        self,
        projects: Sequence[int],
        jobs: Sequence[UUID],
        change: JobChange,
        note: Note | None = None,
    ) -> list[Changed | Refused]:
        check_change(change)
        return await self.change_unmoved(projects, dict.fromkeys(jobs), jobs, change, note)

    async def change_unmoved(
        self,
        projects: Sequence[int],
        fences: Mapping[UUID, UUID | None],
        jobs: Sequence[UUID],
        change: JobChange,
        note: Note | None = None,
    ) -> list[Changed | Refused]:
        """Change jobs that still stand where the caller saw them: a job whose fence is not the
        given one has moved on."""
        answers: dict[UUID, Changed | Refused] = {}
        distinct = list(dict.fromkeys(jobs))
        # One entry in the audit log tells of all of them, so they change in one transaction.
        at_once = AT_ONCE if note is None else max(1, len(distinct))
        for start in range(0, len(distinct), at_once):
            some = {job: fences[job] for job in distinct[start : start + at_once]}
            answers |= await self._connections.until_undisturbed(
                partial(self._change_some, projects, some, change, note)
            )
        return [answers[job] for job in jobs]

    async def change_rows(self, rows: list[asyncpg.Record], change: JobChange) -> int:
        """Change the jobs in these rows (job, fence, project) unless they have moved on since the
        rows were read."""
        if not rows:
            return 0
        fences = {row["job"]: row["fence"] for row in rows}
        answers = await self.change_unmoved(
            list({row["project"] for row in rows}), fences, list(fences), change
        )
        return sum(isinstance(answer, Changed) for answer in answers)

    async def _change_some(
        self,
        projects: Sequence[int],
        fences: Mapping[UUID, UUID | None],
        change: JobChange,
        note: Note | None,
    ) -> dict[UUID, Changed | Refused]:
        async with self._connections.transaction() as connection:
            answers, arrivals = await self.change_within(connection, projects, fences, change, note)
        if arrivals:
            self._claims.look_from_head()
            self._signals.send(arrivals)
        return answers

    async def change_within(
        self,
        connection: Connection,
        projects: Sequence[int],
        fences: Mapping[UUID, UUID | None],
        change: JobChange,
        note: Note | None = None,
    ) -> tuple[dict[UUID, Changed | Refused], list[Arrival]]:
        """Inside a transaction; also where jobs came that can be claimed."""
        answers: dict[UUID, Changed | Refused] = {}
        simple: list[tuple[LocatedJob, Move]] = []
        moves: list[tuple[LocatedJob, Place]] = []
        # Locks are taken first: facts that are read after them stay as they are.
        places = await lock_places(self._connections, connection, projects, list(fences))
        known = await connection.fetch(self._connections.sql("facts"), list(places), list(projects))
        located = {
            row["id"]: LocatedJob(read_standing(row, *places[row["id"]]), row, places[row["id"]][1])
            for row in known
        }
        for job, fence in fences.items():
            found = located.get(job)
            try:
                if found is None:
                    raise await self._missing(connection, job)
                if fence is not None and (
                    found.place.get("fence") != fence or _got_a_chance(change, found.place)
                ):
                    raise Conflict(f"job {job} has moved on")
                move = plan(change, found.standing)
                if isinstance(move, Place):
                    moves.append((found, move))
                    continue
                simple.append((found, move))
                status = _status_after(found, move)
                answers[job] = Changed(job, status, note_on(change, found.standing, move))
            except TaskForgeError as error:
                answers[job] = Refused(error)
        await self._carry_out(connection, simple)
        arrivals = await self._place(connection, change, moves, answers)
        if note is not None:
            changed = [
                (located[job].facts["project"], located[job].standing.status, answer)
                for job, answer in answers.items()
                if isinstance(answer, Changed)
            ]
            entry = trail.jobs_changed(note, changed)
            await enter(self._connections, connection, [] if entry is None else [entry])
        return answers, arrivals

    async def _missing(self, connection: Connection, job: UUID) -> TaskForgeError:
        horizon = await connection.fetchval(self._connections.sql("pruned_before"))
        if horizon is not None and created_at(job) < horizon:
            return Gone(job)
        return NotFound("job", str(job))

    async def _carry_out(
        self, connection: Connection, moves: list[tuple[LocatedJob, Move]]
    ) -> None:
        """Moves that nothing can refuse any more, all of a kind at once."""
        now = self._connections.bound_now()
        ends = [_ending(job, move, now) for job, move in moves if isinstance(move, End)]
        stops = [
            (job.place["fence"], move.reason) for job, move in moves if isinstance(move, AskToStop)
        ]
        erased = [(job.facts["id"], now) for job, move in moves if isinstance(move, Erase)]
        removed = [job.facts for job, move in moves if isinstance(move, Remove)]
        for name, rows in (("end_waiting", ends), ("ask_to_stop", stops), ("erase", erased)):
            if rows:
                await connection.executemany(self._connections.sql(name), rows)
        if removed:
            jobs, queues = (
                [facts["id"] for facts in removed],
                list({facts["queue"] for facts in removed}),
            )
            await connection.execute(self._connections.sql("remove"), jobs, queues, None, now)

    async def _place(
        self,
        connection: Connection,
        change: JobChange,
        moves: Sequence[tuple[LocatedJob, Place]],
        answers: dict[UUID, Changed | Refused],
    ) -> list[Arrival]:
        """Answer for jobs that get another place, and tell the spots they came to. What may be
        refused is asked job by job; what is not is carried out for all at once."""
        goals, placements = (
            Goals(self._catalog_cache, connection),
            Placements(self._connections, connection),
        )
        moved = [job for job, move in moves if brings_payload(move, job.standing)]
        sizes = await placements.payload_sizes([job.facts["id"] for job in moved])
        accepted: list[Placement] = []
        for job, move in moves:
            try:
                queue = await goals.queue(job.facts["project"], move.queue)
                if brings_payload(move, job.standing):
                    kept = sizes[job.facts["id"]]
                    check_payload_fits(
                        move, queue, kept if move.payload is None else len(move.payload)
                    )
                lane = await self._find_lane(connection, goals, placements, job, move, queue.number)
                fair = key_in(queue.settings.fairness, job.facts["fairness_key"])
                accepted.append(Placement(job, move, queue.number, lane, fair))
            except TaskForgeError as error:
                answers[job.facts["id"]] = Refused(error)
        statuses = await placements.carry_out(accepted)
        for job, move, *_ in accepted:
            note = note_on(change, job.standing, move)
            answers[job.facts["id"]] = Changed(job.facts["id"], statuses[job.facts["id"]], note)
        spots = dict.fromkeys((one.job.facts["project"], one.spot, 0) for one in accepted)
        return list(spots)

    @staticmethod
    async def _find_lane(
        connection: Connection,
        goals: Goals,
        placements: Placements,
        job: LocatedJob,
        move: Place,
        queue: int,
    ) -> int:
        facts = job.facts
        key = (queue, facts["job_type"], move.priority, facts["requires"] or "")
        takes_key = job.standing.status.is_final and facts["unique_key"] is not None
        known = goals.known_lane(key)
        if known is not None and not takes_key:
            return known
        async with connection.transaction():  # a refusal half-way undoes this job alone
            lane = await goals.lane(key)
            if takes_key:
                await placements.take_unique_key(facts)
        return lane


def _got_a_chance(change: JobChange, place: asyncpg.Record) -> bool:
    """Whether a job that is to fail because everyone skipped it was edited since: it keeps its
    fence, but not who skipped it."""
    return change == ExpireJob(SKIPPED_BY_ALL) and not place.get("skipped")


def _status_after(job: LocatedJob, move: Move) -> JobStatus | None:
    match move:
        case End(status):
            return status
        case AskToStop() | Erase():
            return job.standing.status
        case Remove():
            return None
        case Place():
            raise AssertionError("where a job is placed is known only when it is")
        case _:
            assert_never(move)


def _ending(job: LocatedJob, move: End, now: datetime | None) -> tuple[Any, ...]:
    place, facts = job.place, job.facts
    code, error = codec.JOB_CODE[move.status], codec.error_text(move.error)
    failure = (
        None
        if move.error is None
        else group_of(facts["project"], facts["job_type"], kind_of(move.error))
    )
    numbers = (place["attempt"], place["max_attempts"], place["crashes"])
    return (
        place["fence"],
        facts["id"],
        facts["queue"],
        facts["project"],
        code,
        *numbers,
        error,
        move.reason,
        now,
        failure,
        facts["job_type"],
    )
