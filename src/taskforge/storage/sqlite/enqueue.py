"""Puts jobs into the store: checks them against their queues, takes their keys, writes facts and places in bulk."""

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from taskforge.domain.errors import Invalid, KeyTaken, NotFound, QueuePaused, TaskForgeError
from taskforge.domain.ids import is_job_id, uuid_from_bytes
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.domain.queue import Queue
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.transaction import Transaction

Answer = Inserted | Refused
UNIQUE, IDEMPOTENT = 0, 1

# Rows a statement. Per second, small payloads: 153k one row at a time (executemany), 195k by 20, 229k by 100, 244k by 500; through
# json_each 372k, but only 88k against 134k when a payload has 1 KB, because it is escaped and parsed again.
ROWS_AT_ONCE = (200, 40, 8, 1)
_PLAIN = "(id, project, queue, job_type, priority, max_attempts, requires, payload)"
_FULL = f"""{_PLAIN[:-1]}, deadline, expires_at, timeout_seconds, tags, unique_key, idempotency_key, fairness_key, trace)"""


def insert(transaction: Transaction, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
    return Enqueuer(transaction, project).insert(jobs)


class Enqueuer:
    """One batch of one project."""

    def __init__(self, transaction: Transaction, project: int) -> None:
        self._transaction = transaction
        self._project = project
        self._now = transaction.now
        self._plain: list[tuple[object, ...]] = []
        self._full: list[tuple[object, ...]] = []
        self._fences: list[bytes] = []
        self._ready: list[tuple[object, ...]] = []
        self._waiting: list[tuple[object, ...]] = []
        self._tags: list[tuple[object, ...]] = []

    def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        answers, accepted = self._check(jobs)
        keys = {(job_queue.number, job.job_type, job.priority, job.requires) for _, job, job_queue in accepted}
        lane_of = self._transaction.keeper.with_lanes(keys).lane
        if any(job.id is not None for _, job, _ in accepted):
            accepted = self._without_known(accepted, answers)
        if any(job.unique_key is not None or job.idempotency_key is not None for _, job, _ in accepted):
            identified = self._with_keys(accepted, answers)
        else:
            mint = self._transaction.mint
            identified = [(index, job, queue, job.id or mint()) for index, job, queue in accepted]
        for index, job, queue, identifier in identified:
            lane = lane_of((queue.number, job.job_type, job.priority, job.requires))
            assert lane is not None
            self._add(job, queue, identifier, lane)
            answers[index] = Inserted(identifier)
        self._write()
        return answers  # type: ignore[return-value]

    def _check(self, jobs: Sequence[NewJob]) -> tuple[list[Answer | None], list[tuple[int, NewJob, Queue]]]:
        """Each job's refusal or None, and those that may go on."""
        catalog = self._transaction.keeper.current()
        known: dict[str, Queue | TaskForgeError] = {}
        answers: list[Answer | None] = []
        accepted = []
        for index, job in enumerate(jobs):
            queue = known.get(job.queue)
            if queue is None:
                try:
                    queue = catalog.queue_named(self._project, job.queue)
                    if not queue.is_active and not queue.settings.accept_while_paused:
                        queue = QueuePaused(queue.name)
                except NotFound as error:
                    queue = error
                known[job.queue] = queue
            if isinstance(queue, TaskForgeError):
                answers.append(Refused(queue))
            elif len(job.payload) > queue.settings.payload_limit_bytes:
                limit = queue.settings.payload_limit_bytes
                problem = f"takes {len(job.payload):,} bytes as JSON"
                answers.append(Refused(Invalid("payload", problem, f"queue {queue.name!r} allows {limit:,}")))
            elif job.id is not None and not is_job_id(job.id):
                expected = "use a UUIDv7 whose last 24 bits are zero, or none"
                answers.append(Refused(Invalid("id", f"{job.id} is not a job id", expected)))
            else:
                answers.append(None)
                accepted.append((index, job, queue))
        return answers, accepted

    def _without_known(
        self, accepted: list[tuple[int, NewJob, Queue]], answers: list[Answer | None]
    ) -> list[tuple[int, NewJob, Queue]]:
        """Answer for ids that are already stored: an insert may be repeated after a lost answer."""
        given = [job.id for _, job, _ in accepted if job.id is not None]
        rows = self._transaction.execute(sql("known_ids"), (codec.ids(given), codec.positions(len(given)))).fetchall()
        known = {identifier for (identifier,) in rows}
        fresh = []
        for index, job, queue in accepted:
            if job.id is not None and job.id.bytes in known:
                answers[index] = Inserted(job.id, existed=True)
                continue
            if job.id is not None:
                known.add(job.id.bytes)  # the same id twice in one batch: the second one existed
            fresh.append((index, job, queue))
        return fresh

    # --- Keys ---

    def _with_keys(
        self, accepted: list[tuple[int, NewJob, Queue]], answers: list[Answer | None]
    ) -> list[tuple[int, NewJob, Queue, UUID]]:
        """Answer for the jobs whose key is held, take the keys of the others and give those their ids."""
        once = self._holders(IDEMPOTENT, [job.idempotency_key for _, job, _ in accepted])
        unique = self._holders(UNIQUE, [job.unique_key for _, job, _ in accepted])
        taken: list[tuple[object, ...]] = []
        identified = []
        for index, job, queue in accepted:
            once_key, unique_key = job.idempotency_key, job.unique_key
            body = None if once_key is None else job.body_hash()
            if once_key is not None and once_key in once:
                holder, held_body = once[once_key]
                same = held_body == body
                answers[index] = Inserted(holder, existed=True) if same else Refused(KeyTaken(once_key, holder))
                continue
            # A job that is not made because another holds its unique key: its idempotency key stands for the holder.
            existing = None if unique_key is None else unique.get(unique_key)
            identifier = existing[0] if existing else (job.id or self._transaction.mint())
            if once_key is not None:
                once[once_key] = (identifier, body)
                until = self._now + codec.span(job.idempotency_seconds)
                taken.append((self._project, IDEMPOTENT, once_key, identifier.bytes, body, until))
            if existing:
                answers[index] = Inserted(identifier, existed=True)
                continue
            if unique_key is not None:
                unique[unique_key] = (identifier, None)
                taken.append((self._project, UNIQUE, unique_key, identifier.bytes, None, None))
            identified.append((index, job, queue, identifier))
        self._transaction.executemany(sql("take_key"), taken)
        return identified

    def _holders(self, scope: int, keys: list[str | None]) -> dict[str, tuple[UUID, bytes | None]]:
        wanted = [key for key in dict.fromkeys(keys) if key is not None]
        if not wanted:
            return {}
        rows = self._transaction.execute(sql("key_holders"), (codec.json(wanted), self._project, scope, self._now)).fetchall()
        return {key: (uuid_from_bytes(job), body) for key, job, body in rows}

    # --- Rows ---

    def _add(self, job: NewJob, queue: Queue, identifier: UUID, lane: int) -> None:
        number = identifier.int
        stored = number.to_bytes(16)
        payload = job.payload.decode()
        budget = job.max_attempts or queue.settings.max_attempts
        facts = (stored, self._project, queue.number, job.job_type, job.priority, budget, job.requires or None, payload)
        if _is_plain(job):
            self._plain.append(facts)
            self._fences.append((number + 1).to_bytes(16))
            self._ready.append((lane, budget))
            return
        now = self._now
        deadline, expires, due = codec.at(job.deadline, now), codec.at(job.expires, now), codec.at(job.at, now)
        tags = codec.json(job.tags) if job.tags else None
        extras = (deadline, expires, job.timeout_seconds, tags, job.unique_key, job.idempotency_key, job.fairness_key, job.trace)
        self._full.append(facts + extras)
        self._tags.extend((self._project, tag, stored) for tag in job.tags)
        until, keyed = codec.earlier(deadline, expires), int(job.unique_key is not None)
        fence = (number + 1).to_bytes(16)
        if due is not None and due > now:
            self._waiting.append((fence, self._project, lane, 0, budget, 0, keyed, due, until))
        else:
            self._fences.append(fence)
            self._ready.append((lane, budget, keyed, until))

    def _write(self) -> None:
        transaction = self._transaction
        for columns, rows in ((_PLAIN, self._plain), (_FULL, self._full)):
            start = 0
            for size in ROWS_AT_ONCE:
                while len(rows) - start >= size:
                    flat = [value for row in rows[start : start + size] for value in row]
                    transaction.execute(_insert_facts(columns, size), flat)
                    start += size
        if self._ready:
            values = (codec.json(self._ready), self._project, self._now, b"".join(self._fences))
            transaction.execute(sql("add_ready"), values)
            transaction.wakes = True
        if self._waiting:
            transaction.executemany(sql("add_waiting"), self._waiting)
        if self._tags:
            transaction.executemany("insert or ignore into job_tags (project, tag, job) values (?, ?, ?)", self._tags)


@lru_cache
def _insert_facts(columns: str, count: int) -> str:
    row = "(" + ", ".join("?" * (columns.count(",") + 1)) + ")"
    return f"insert into jobs {columns} values " + ", ".join([row] * count)  # noqa: S608


def _is_plain(job: NewJob) -> bool:
    return (
        job.at is None
        and job.deadline is None
        and job.expires is None
        and job.timeout_seconds is None
        and job.unique_key is None
        and job.idempotency_key is None
        and job.fairness_key is None
        and job.trace is None
        and not job.tags
    )
