"""Puts jobs into the store: checks them against their queues, takes their keys, writes facts and
places in bulk."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.admission import held
from taskforge.domain.alike import Alike
from taskforge.domain.ids import uuid_from_bytes, uuid_from_int
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.domain.queue import MOST_LANES, too_many_lanes
from taskforge.storage.catalog import LaneKey
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import enter
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.job_rows import JobRows, Kind
from taskforge.storage.sqlite.transaction import Transaction

Answer = Inserted | Refused
UNIQUE, IDEMPOTENT = 0, 1


@cache
def insert_into(project: int) -> Callable[[Transaction, Sequence[NewJob]], list[Answer]]:
    """One function for each project, by which the writer knows neighbouring inserts that it may
    join."""
    return lambda transaction, jobs: _insert(transaction, project, jobs)


def _insert(transaction: Transaction, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
    made = None
    if type(jobs) is Alike and jobs.template.is_plain:
        made = InsertBatch(transaction, project).insert_alike(jobs)
    return InsertBatch(transaction, project).insert(jobs) if made is None else made


class InsertBatch:
    """One batch of one project."""

    def __init__(self, transaction: Transaction, project: int) -> None:
        self._transaction = transaction
        self._project = project
        self._now = transaction.now
        self._rows = JobRows(transaction, project)
        # how many more lanes the project may have, and how many at all; not asked yet
        self._room: tuple[int, int] | None = None

    def insert_alike(self, jobs: Alike) -> list[Answer] | None:
        """Column by column, as long as all is well with all of them; else None, and nothing is
        written."""
        _, accepted = self._check([jobs.longest()])
        if not accepted:
            return None
        [(_, _, kind)] = accepted
        numbers = self._transaction.mint.many(len(jobs))
        kind.ids = [number.to_bytes(16) for number in numbers]
        kind.fences = [(number + 1).to_bytes(16) for number in numbers]
        kind.payloads = [payload.decode() for payload in jobs.payloads]
        kind.positions = list(range(len(jobs)))
        self._rows.write()
        answers: list[Answer] = [Inserted(uuid_from_int(number)) for number in numbers]
        entries = trail.alike_inserted(self._project, jobs, uuid_from_int(numbers[0]))
        if entries:
            enter(self._transaction, entries)
        return answers

    def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        answers, accepted = self._check(jobs)
        if len(accepted) < len(jobs):
            self._answer_known(jobs, answers)
        if any(job.id is not None for _, job, _ in accepted):
            accepted = self._without_known(accepted, answers)
        if any(
            job.unique_key is not None or job.idempotency_key is not None for _, job, _ in accepted
        ):
            identified = self._with_keys(accepted, answers)
        else:
            mint = self._transaction.mint
            identified = [(index, job, kind, job.id or mint()) for index, job, kind in accepted]
        noted: list[tuple[int, NewJob, UUID]] = []
        for index, job, kind, identifier in identified:
            if job.is_plain:
                number = identifier.int
                kind.ids.append(number.to_bytes(16))
                kind.fences.append((number + 1).to_bytes(16))
                kind.payloads.append(job.payload.decode())
                kind.positions.append(index)
            else:
                self._rows.add(index, job, kind, identifier)
            answers[index] = Inserted(identifier)
            if job.note is not None:
                noted.append((self._project, job, identifier))
        self._rows.write()
        if noted:
            enter(self._transaction, trail.jobs_inserted(noted))
        return answers

    def _check(self, jobs: Sequence[NewJob]) -> tuple[list[Any], list[tuple[int, NewJob, Kind]]]:
        """Each job's refusal or None, and those that may go on, their lanes made."""
        cache = self._transaction.catalog_cache
        catalog = cache.of(self._project)
        kinds = self._rows.kinds
        answers: list[Answer | None] = [None] * len(jobs)
        accepted = []
        for index, job in enumerate(jobs):
            key = (job.queue, job.job_type, job.priority, job.requires, job.max_attempts)
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = Kind(cache, catalog, job)
            error = kind.refusal(job)
            if error is None:
                accepted.append((index, job, kind))
            else:
                answers[index] = Refused(error)
        for key, kind in kinds.items():
            if kind.queue is not None and kind.error is None:
                self._find_lane(kind, (kind.queue.number, key[1], key[2], key[3]))
        if any(kind.error is not None and kind.queue is not None for kind in kinds.values()):
            for index, _, kind in accepted:
                if kind.error is not None:
                    answers[index] = Refused(kind.error)
            accepted = [one for one in accepted if one[2].error is None]
        return answers, accepted

    def _find_lane(self, kind: Kind, key: LaneKey) -> None:
        """The lane of a kind, made where it is new and the project may have more."""
        cache = self._transaction.catalog_cache
        if cache.find_lane(key) is None:
            if self._room is None:
                arguments = (self._project, MOST_LANES)
                self._room = self._transaction.execute(sql("room_for_lanes"), arguments).fetchone()
            room, most = self._room
            if room <= 0:
                kind.error = too_many_lanes(most)
                return
            self._room = room - 1, most
        kind.lane = cache.lane_for(self._project, key).number

    def _answer_known(self, jobs: Sequence[NewJob], answers: list[Answer | None]) -> None:
        """Whoever asks again for what was stored before gets that as the answer, whatever the queue
        says to new jobs by now."""
        refused = [(index, job) for index, job in enumerate(jobs) if answers[index] is not None]
        once = self._holders(IDEMPOTENT, [job.idempotency_key for _, job in refused])
        known = self._known([job.id for _, job in refused if job.id is not None])
        for index, job in refused:
            if job.id is not None and job.id.bytes in known:
                answers[index] = Inserted(job.id, existed=True)
            elif job.idempotency_key is not None and job.idempotency_key in once:
                answers[index] = held(job, *once[job.idempotency_key])

    def _known(self, ids: list[UUID]) -> set[bytes]:
        rows = (
            self._transaction.execute(sql("known_ids"), (codec.ids(ids), codec.positions(len(ids))))
            if ids
            else ()
        )
        return {identifier for (identifier,) in rows}

    def _without_known(
        self, accepted: list[tuple[int, NewJob, Kind]], answers: list[Answer | None]
    ) -> list[tuple[int, NewJob, Kind]]:
        """Answer for ids that are already stored: an insert may be repeated after a lost answer."""
        known = self._known([job.id for _, job, _ in accepted if job.id is not None])
        fresh = []
        for index, job, kind in accepted:
            if job.id is not None and job.id.bytes in known:
                answers[index] = Inserted(job.id, existed=True)
                continue
            if job.id is not None:
                known.add(job.id.bytes)  # the same id twice in one batch: the second one existed
            fresh.append((index, job, kind))
        return fresh

    # --- Keys ---

    def _with_keys(
        self, accepted: list[tuple[int, NewJob, Kind]], answers: list[Answer | None]
    ) -> list[tuple[int, NewJob, Kind, UUID]]:
        """Answer for the jobs whose key is held, take the keys of the others and give those their
        ids."""
        once = self._holders(IDEMPOTENT, [job.idempotency_key for _, job, _ in accepted])
        unique = self._holders(UNIQUE, [job.unique_key for _, job, _ in accepted])
        taken: list[tuple[object, ...]] = []
        identified = []
        for index, job, kind in accepted:
            once_key, unique_key = job.idempotency_key, job.unique_key
            if once_key is not None and once_key in once:
                answers[index] = held(job, *once[once_key])
                continue
            # A job that is not made because another holds its unique key: its idempotency key
            # stands for the holder.
            existing = None if unique_key is None else unique.get(unique_key)
            identifier = existing[0] if existing else (job.id or self._transaction.mint())
            if once_key is not None:
                body = job.body_hash()
                once[once_key] = (identifier, body)
                until = self._now + codec.span(job.idempotency_seconds)
                taken.append((self._project, IDEMPOTENT, once_key, identifier.bytes, body, until))
            if existing:
                answers[index] = Inserted(identifier, existed=True)
                continue
            if unique_key is not None:
                unique[unique_key] = (identifier, None)
                taken.append((self._project, UNIQUE, unique_key, identifier.bytes, None, None))
            identified.append((index, job, kind, identifier))
        self._transaction.executemany(sql("take_keys"), taken)
        return identified

    def _holders(self, scope: int, keys: list[str | None]) -> dict[str, tuple[UUID, bytes | None]]:
        wanted = [key for key in dict.fromkeys(keys) if key is not None]
        if not wanted:
            return {}
        rows = self._transaction.execute(
            sql("key_holders"), (codec.json(wanted), self._project, scope, self._now)
        ).fetchall()
        return {key: (uuid_from_bytes(job), body) for key, job, body in rows}
