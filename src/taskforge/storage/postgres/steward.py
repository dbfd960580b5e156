"""Carries out what operators ask of jobs: locate under lock, ask the domain what the change means, move."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, assert_never
from uuid import UUID

import asyncpg
import msgspec

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
    Standing,
    brings_payload,
    check_change,
    check_payload_fits,
    note_on,
    plan,
)
from taskforge.domain.errors import Conflict, Gone, NotFound, TaskForgeError
from taskforge.domain.ids import created_at, epoch_of, fence_of
from taskforge.domain.job import JobStatus, Refused
from taskforge.storage.catalog import Catalog, LaneKey
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connections import Connection
from taskforge.storage.postgres.finisher import Finisher

AT_ONCE = 500
LOCATE_TRIES = 50


class Located(msgspec.Struct, frozen=True):
    standing: Standing
    facts: Any
    place: Any  # the locked row of the place it is in


class Steward(Finisher):
    async def change(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange, note: Note | None = None
    ) -> list[Changed | Refused]:
        check_change(change)
        return await self.change_standing(projects, dict.fromkeys(jobs), jobs, change, note)

    async def change_standing(
        self,
        projects: Sequence[int],
        fences: Mapping[UUID, UUID | None],
        jobs: Sequence[UUID],
        change: JobChange,
        note: Note | None = None,
    ) -> list[Changed | Refused]:
        """Change jobs that still stand where the caller saw them: a job whose fence is not the given one has moved on."""
        answers: dict[UUID, Changed | Refused] = {}
        distinct = list(dict.fromkeys(jobs))
        # One entry in the audit log tells of all of them, so they change in one transaction.
        at_once = AT_ONCE if note is None else max(1, len(distinct))
        for start in range(0, len(distinct), at_once):
            some = {job: fences[job] for job in distinct[start : start + at_once]}
            answers |= await self.until_undisturbed(partial(self._change_some, projects, some, change, note))
        return [answers[job] for job in jobs]

    async def _change_some(
        self, projects: Sequence[int], fences: Mapping[UUID, UUID | None], change: JobChange, note: Note | None
    ) -> dict[UUID, Changed | Refused]:
        answers: dict[UUID, Changed | Refused] = {}
        simple: list[tuple[Located, Move]] = []
        placed = False
        async with self.transaction() as connection:
            # Locks are taken first: a catalog read after them knows every queue and lane these jobs can be in.
            places = await self._lock_places(connection, projects, list(fences))
            catalog = await self.read_catalog(connection)
            known = await connection.fetch(self.sql("facts"), list(places), list(projects))
            located = {row["id"]: Located(_standing(row, *places[row["id"]], catalog), row, places[row["id"]][1]) for row in known}
            for job, fence in fences.items():
                found = located.get(job)
                try:
                    if found is None:
                        raise await self._missing(connection, job)
                    if fence is not None and (found.place.get("fence") != fence or _got_a_chance(change, found.place)):
                        raise Conflict(f"job {job} has moved on")
                    move = plan(change, found.standing)
                    if isinstance(move, Place):
                        async with connection.transaction():  # a refusal half-way undoes this job alone
                            status: JobStatus | None = await self._place(connection, catalog, found, move)
                        placed = True
                    else:
                        simple.append((found, move))
                        status = _status_after(found, move)
                    answers[job] = Changed(job, status, note_on(change, found.standing, move))
                except TaskForgeError as error:
                    answers[job] = Refused(error)
            await self._carry_out(connection, simple)
            if note is not None:
                changed = [
                    (located[job].facts["project"], located[job].standing.status, answer)
                    for job, answer in answers.items()
                    if isinstance(answer, Changed)
                ]
                entry = trail.jobs_changed(note, changed)
                await self.enter(connection, [] if entry is None else [entry])
        if placed:
            self.look_from_head()
            self.signals.send()
        return answers

    async def _missing(self, connection: Connection, job: UUID) -> TaskForgeError:
        horizon = await connection.fetchval(self.in_schema("select pruned_before from taskforge.catalog"))
        if horizon is not None and created_at(job) < horizon:
            return Gone(job)
        return NotFound("job", str(job))

    async def _lock_places(
        self, connection: Connection, projects: Sequence[int], jobs: list[UUID]
    ) -> dict[UUID, tuple[JobStatus, asyncpg.Record]]:
        """Lock the row of the place each job is in. Whoever holds it alone may change the job's facts."""
        places: dict[UUID, tuple[JobStatus, asyncpg.Record]] = {}
        for _ in range(LOCATE_TRIES):
            missing = sorted(job for job in jobs if job not in places)
            facts = await connection.fetch(self.sql("facts"), missing, list(projects))
            if not facts:
                break
            missing = [row["id"] for row in facts]
            for name, status in _LIVE_PLACES:
                rows = await connection.fetch(self.sql(name), missing)
                places |= {row["job"]: (status, row) for row in rows}
            rows = await connection.fetch(self.sql("lock_finished"), missing, [row["queue"] for row in facts])
            places |= {row["job"]: (codec.JOB_STATUSES[row["status"]], row) for row in rows}
            if len(places) == len(jobs):
                break
            # A job that moved between two of these reads was seen in none; each new statement sees what has committed since.
        return places

    async def _carry_out(self, connection: Connection, moves: list[tuple[Located, Move]]) -> None:
        """Moves that nothing can refuse any more, all of a kind at once."""
        now = self.bound_now()
        ends = [_ending(job, move, now) for job, move in moves if isinstance(move, End)]
        stops = [(job.place["fence"], move.reason) for job, move in moves if isinstance(move, AskToStop)]
        erased = [(job.facts["id"], now) for job, move in moves if isinstance(move, Erase)]
        removed = [job.facts for job, move in moves if isinstance(move, Remove)]
        for name, rows in (("end_waiting", ends), ("ask_to_stop", stops), ("erase", erased)):
            if rows:
                await connection.executemany(self.sql(name), rows)
        if removed:
            jobs, queues = [facts["id"] for facts in removed], list({facts["queue"] for facts in removed})
            await connection.execute(self.sql("remove"), jobs, queues, None, now)

    async def _place(self, connection: Connection, catalog: Catalog, job: Located, move: Place) -> JobStatus:
        facts, place, final = job.facts, job.place, job.standing.status.is_final
        queue = catalog.queue_named(facts["project"], move.queue)
        if brings_payload(move, job.standing):
            kept = move.payload is None
            size = await connection.fetchval(self.sql("payload_bytes"), facts["id"]) if kept else len(move.payload or b"")
            check_payload_fits(move, queue, size)
        lane = await self._lane(connection, catalog, (queue.number, facts["job_type"], move.priority, facts["requires"] or ""))
        keyed = False if final else place["keyed"]
        if final and facts["unique_key"] is not None:
            await self._take_unique_key(connection, facts)
            keyed = True
        if final:
            epoch = await connection.fetchval(self.sql("last_epoch"), facts["id"], place["epoch"])
            fence = fence_of(facts["id"], epoch + 1)
            await connection.execute(self.sql("leave_finished"), facts["id"], facts["queue"])
        else:
            fence = place["fence"]
            await connection.execute(self.sql("leave"), fence)
        payload = None if move.payload is None else move.payload.decode()
        times = await connection.fetchrow(
            self.sql("rewrite"),
            facts["id"],
            queue.number,
            move.priority,
            payload,
            move.clear_origin,
            final,
            self.bound_now(),
        )
        assert times is not None
        # What waits for a handler that fits gets another chance by any change.
        stays = move.at is None and not place.get("parked")
        waits = await connection.fetchval(
            self.sql("place"),
            fence,
            facts["id"],
            facts["project"],
            lane,
            move.attempt,
            facts["max_attempts"] if move.max_attempts is None else move.max_attempts,
            move.crashes,
            keyed,
            place.get("due") if stays and not final else codec.instant(move.at),
            codec.seconds(move.at),
            place.get("turn") if stays and not final else None,
            # A start-by time counts until the first start.
            times["until"] if epoch_of(fence) == 1 else times["deadline"],
            self.bound_now(),
            stays and job.standing.status is JobStatus.SCHEDULED,
        )
        return JobStatus.SCHEDULED if waits else JobStatus.PENDING

    async def _lane(self, connection: Connection, catalog: Catalog, key: LaneKey) -> int:
        number = catalog.lane(key)
        if number is None:
            await self.make_lanes(connection, [key])
            number = (await self.read_catalog(connection)).lane(key)
        assert number is not None
        return number

    async def _take_unique_key(self, connection: Connection, facts: Any) -> None:
        rows = await connection.fetch(
            self.sql("take_keys"),
            facts["project"],
            [0],
            [facts["unique_key"]],
            [facts["id"]],
            [None],
            [None],
            self.bound_now(),
        )
        if rows[0]["job"] != facts["id"]:
            key, holder = facts["unique_key"], rows[0]["job"]
            raise Conflict(f"job {facts['id']} cannot run again: its unique key {key!r} is now held by job {holder}")


_LIVE_PLACES: Iterable[tuple[str, JobStatus]] = (
    ("lock_ready", JobStatus.PENDING),
    ("lock_waiting", JobStatus.SCHEDULED),
    ("lock_running", JobStatus.PROCESSING),
)


def _got_a_chance(change: JobChange, place: asyncpg.Record) -> bool:
    """Whether a job that is to fail because everyone skipped it was edited since: it keeps its fence, but not who skipped it."""
    return change == ExpireJob(SKIPPED_BY_ALL) and not place.get("skipped")


def _status_after(job: Located, move: Move) -> JobStatus | None:
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


def _ending(job: Located, move: End, now: datetime | None) -> tuple[Any, ...]:
    place, facts = job.place, job.facts
    code, error = codec.JOB_CODE[move.status], codec.error_text(move.error)
    numbers = (place["attempt"], place["max_attempts"], place["crashes"])
    return (place["fence"], facts["id"], facts["queue"], facts["project"], code, *numbers, error, move.reason, now)


def _standing(facts: asyncpg.Record, status: JobStatus, place: asyncpg.Record, catalog: Catalog) -> Standing:
    origin = facts["origin_queue"]
    return Standing(
        job=facts["id"],
        status=status,
        queue=catalog.queues[facts["queue"]].name,
        priority=facts["priority"],
        attempt=place["attempt"],
        max_attempts=place["max_attempts"],
        crashes=place["crashes"],
        origin_queue=None if origin is None else catalog.queues[origin].name,
        cancel_requested=bool(place.get("cancel_requested")),
        payload_erased=facts["erased"],
    )
