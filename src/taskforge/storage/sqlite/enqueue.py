"""Puts jobs into the store: checks them against their queues, takes their keys, writes facts and places in bulk."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.errors import NotFound, TaskForgeError
from taskforge.domain.ids import uuid_from_bytes, uuid_from_int
from taskforge.domain.job import Alike, Inserted, NewJob, Refused, held, refusal
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Catalog
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.ledger import enter
from taskforge.storage.sqlite.transaction import Transaction

Answer = Inserted | Refused
UNIQUE, IDEMPOTENT = 0, 1

# A batch per second with small payloads: 153k one row at a time (executemany), 229k and 244k with 100 and 500 rows a statement,
# 372k through json_each. A payload of 1 KB turns it round: 104k, 130k, 128k, 88k, because it is escaped and parsed again.
ROWS_AT_ONCE = (200, 40, 8, 1)
SMALL_PAYLOAD = 400
_PLAIN = "(id, project, queue, job_type, priority, max_attempts, requires, payload)"
_FULL = f"{_PLAIN[:-1]}, deadline, expires_at, timeout_seconds, tags, unique_key, idempotency_key, fairness_key, trace)"


def insert(transaction: Transaction, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
    made = None
    if type(jobs) is Alike and jobs.template.is_plain:
        made = Enqueuer(transaction, project).insert_alike(jobs)
    return Enqueuer(transaction, project).insert(jobs) if made is None else made


class Kind:
    """Jobs of one batch that differ in payload and position only, or what is wrong with all of them."""

    __slots__ = ("budget", "error", "fences", "ids", "lane", "payloads", "positions", "queue")

    def __init__(self, catalog: Catalog, project: int, job: NewJob) -> None:
        self.error: TaskForgeError | None = None
        self.queue: Queue | None = None
        self.budget = self.lane = 0
        self.ids: list[bytes] = []
        self.fences: list[bytes] = []
        self.payloads: list[str] = []
        self.positions: list[int] = []
        try:
            self.queue = queue = catalog.queue_named(project, job.queue)
        except NotFound as error:
            self.error = error
            return
        self.budget = job.max_attempts or queue.settings.max_attempts

    def refusal(self, job: NewJob) -> TaskForgeError | None:
        return self.error if self.queue is None else refusal(job, self.queue)


class Enqueuer:
    """One batch of one project."""

    def __init__(self, transaction: Transaction, project: int) -> None:
        self._transaction = transaction
        self._project = project
        self._now = transaction.now
        self._kinds: dict[tuple[str, str, int, str, int | None], Kind] = {}
        self._full: list[tuple[object, ...]] = []
        self._ready: list[tuple[object, ...]] = []
        self._waiting: list[tuple[object, ...]] = []
        self._tags: list[tuple[object, ...]] = []

    def insert_alike(self, jobs: Alike) -> list[Answer] | None:
        """Column by column, as long as all is well with all of them; else None, and nothing is written."""
        _, accepted = self._check([jobs.longest()])
        if not accepted:
            return None
        [(_, _, kind)] = accepted
        numbers = self._transaction.mint.many(len(jobs))
        kind.ids = [number.to_bytes(16) for number in numbers]
        kind.fences = [(number + 1).to_bytes(16) for number in numbers]
        kind.payloads = [payload.decode() for payload in jobs.payloads]
        kind.positions = list(range(len(jobs)))
        self._write()
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
        if any(job.unique_key is not None or job.idempotency_key is not None for _, job, _ in accepted):
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
                self._add(index, job, kind, identifier)
            answers[index] = Inserted(identifier)
            if job.note is not None:
                noted.append((self._project, job, identifier))
        self._write()
        if noted:
            enter(self._transaction, trail.jobs_inserted(noted))
        return answers

    def _check(self, jobs: Sequence[NewJob]) -> tuple[list[Any], list[tuple[int, NewJob, Kind]]]:
        """Each job's refusal or None, and those that may go on, their lanes made."""
        catalog = self._transaction.keeper.current()
        kinds = self._kinds
        answers: list[Answer | None] = [None] * len(jobs)
        accepted = []
        for index, job in enumerate(jobs):
            key = (job.queue, job.job_type, job.priority, job.requires, job.max_attempts)
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = Kind(catalog, self._project, job)
            error = kind.refusal(job)
            if error is None:
                accepted.append((index, job, kind))
            else:
                answers[index] = Refused(error)
        lanes = {
            (kind.queue.number, key[1], key[2], key[3]): kind
            for key, kind in kinds.items()
            if kind.queue is not None and kind.error is None
        }
        if lanes:
            catalog = self._transaction.keeper.with_lanes(catalog, lanes)
        for key, kind in kinds.items():
            if kind.queue is not None and kind.error is None:
                lane = catalog.lane((kind.queue.number, key[1], key[2], key[3]))
                assert lane is not None
                kind.lane = lane
        return answers, accepted

    def _answer_known(self, jobs: Sequence[NewJob], answers: list[Answer | None]) -> None:
        """Whoever asks again for what was stored before gets that as the answer, whatever the queue says to new jobs by now."""
        refused = [(index, job) for index, job in enumerate(jobs) if answers[index] is not None]
        once = self._holders(IDEMPOTENT, [job.idempotency_key for _, job in refused])
        known = self._known([job.id for _, job in refused if job.id is not None])
        for index, job in refused:
            if job.id is not None and job.id.bytes in known:
                answers[index] = Inserted(job.id, existed=True)
            elif job.idempotency_key is not None and job.idempotency_key in once:
                answers[index] = held(job, *once[job.idempotency_key])

    def _known(self, ids: list[UUID]) -> set[bytes]:
        rows = self._transaction.execute(sql("known_ids"), (codec.ids(ids), codec.positions(len(ids)))) if ids else ()
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
        """Answer for the jobs whose key is held, take the keys of the others and give those their ids."""
        once = self._holders(IDEMPOTENT, [job.idempotency_key for _, job, _ in accepted])
        unique = self._holders(UNIQUE, [job.unique_key for _, job, _ in accepted])
        taken: list[tuple[object, ...]] = []
        identified = []
        for index, job, kind in accepted:
            once_key, unique_key = job.idempotency_key, job.unique_key
            if once_key is not None and once_key in once:
                answers[index] = held(job, *once[once_key])
                continue
            # A job that is not made because another holds its unique key: its idempotency key stands for the holder.
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
        self._transaction.executemany(sql("take_key"), taken)
        return identified

    def _holders(self, scope: int, keys: list[str | None]) -> dict[str, tuple[UUID, bytes | None]]:
        wanted = [key for key in dict.fromkeys(keys) if key is not None]
        if not wanted:
            return {}
        rows = self._transaction.execute(sql("key_holders"), (codec.json(wanted), self._project, scope, self._now)).fetchall()
        return {key: (uuid_from_bytes(job), body) for key, job, body in rows}

    # --- Rows ---

    def _add(self, index: int, job: NewJob, kind: Kind, identifier: UUID) -> None:
        """A job that asks for more than to be run."""
        assert kind.queue is not None
        now, stored, fence = self._now, identifier.bytes, (identifier.int + 1).to_bytes(16)
        deadline, expires, due = codec.at(job.deadline, now), codec.at(job.expires, now), codec.at(job.at, now)
        tags = codec.json(job.tags) if job.tags else None
        facts = (stored, self._project, kind.queue.number, job.job_type, job.priority, kind.budget, job.requires or None)
        extras = (deadline, expires, job.timeout_seconds, tags, job.unique_key, job.idempotency_key, job.fairness_key, job.trace)
        self._full.append((*facts, job.payload.decode(), *extras))
        self._tags.extend((self._project, tag, stored) for tag in job.tags)
        until, keyed = codec.earlier(deadline, expires), int(job.unique_key is not None)
        if due is not None and due > now:
            self._waiting.append((fence, self._project, kind.lane, 0, kind.budget, 0, keyed, due, until, None))
        else:
            self._ready.append((kind.lane, now + index, fence, self._project, 0, kind.budget, 0, keyed, until, None, None))

    def _write(self) -> None:
        transaction = self._transaction
        for key, kind in self._kinds.items():
            if kind.ids:
                self._write_kind(kind, *key[1:4])
                transaction.wakes = True
        if self._full:
            self._write_facts(_FULL, self._full)
            transaction.executemany(sql("put_ready"), self._ready)
            transaction.executemany(sql("add_waiting"), self._waiting)
            transaction.executemany("insert or ignore into job_tags (project, tag, job) values (?, ?, ?)", self._tags)
            transaction.wakes |= bool(self._ready)

    def _write_kind(self, kind: Kind, job_type: str, priority: int, requires: str) -> None:
        """Plain jobs of one kind: two statements, whatever their number."""
        assert kind.queue is not None
        alike = (self._project, kind.queue.number, job_type, priority, kind.budget, requires or None)
        if sum(map(len, kind.payloads)) <= SMALL_PAYLOAD * len(kind.payloads):
            self._transaction.execute(sql("add_facts"), (codec.json(kind.payloads), b"".join(kind.ids), *alike))
        else:
            self._write_facts(_PLAIN, [(one, *alike, payload) for one, payload in zip(kind.ids, kind.payloads, strict=True)])
        values = (codec.json(kind.positions), b"".join(kind.fences), kind.lane, self._now, self._project, kind.budget)
        self._transaction.execute(sql("add_ready"), values)

    def _write_facts(self, columns: str, rows: list[tuple[object, ...]]) -> None:
        start = 0
        for size in ROWS_AT_ONCE:
            while len(rows) - start >= size:
                flat = [value for row in rows[start : start + size] for value in row]
                self._transaction.execute(_insert_facts(columns, size), flat)
                start += size


@lru_cache
def _insert_facts(columns: str, count: int) -> str:
    row = "(" + ", ".join("?" * (columns.count(",") + 1)) + ")"
    return f"insert into jobs {columns} values " + ", ".join([row] * count)
