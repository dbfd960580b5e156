"""The rows of new jobs, gathered kind by kind and written in bulk: facts, places, tags."""

from functools import lru_cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from taskforge.domain.admission import refusal
from taskforge.domain.errors import TaskForgeError
from taskforge.domain.fairness import key_in
from taskforge.domain.job import KEPT_AS_IS, NewJob, extras_text
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Catalog
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import CatalogCache, sql
from taskforge.storage.sqlite.transaction import Transaction
from taskforge.storage.statements import put_in

# A batch per second with small payloads: 153k one row at a time (executemany), 229k and 244k with
# 100 and 500 rows a statement, 372k through json_each. A payload of 1 KB turns it round: 104k,
# 130k, 128k, 88k, because it is escaped and parsed again.
ROWS_AT_ONCE = (200, 40, 8, 1)
SMALL_PAYLOAD = 400
_PLAIN = ("id", "project", "queue", "job_type", "priority", "max_attempts", "requires", "payload")
_FULL = (*_PLAIN, "deadline", "expires_at", "tags", "extras", *KEPT_AS_IS)

_kept_as_is = attrgetter(*KEPT_AS_IS)


class Kind:
    """Jobs of one batch that differ in payload and position only, or what is wrong with all of
    them."""

    __slots__ = ("budget", "error", "fences", "ids", "lane", "payloads", "positions", "queue")

    def __init__(self, cache: CatalogCache, catalog: Catalog, job: NewJob) -> None:
        self.error: TaskForgeError | None = None
        self.queue: Queue | None = None
        self.budget = self.lane = 0
        self.ids: list[bytes] = []
        self.fences: list[bytes] = []
        self.payloads: list[str] = []
        self.positions: list[int] = []
        card = cache.find_named(catalog, job.queue)
        if card is None:
            self.error = cache.no_queue([catalog.project], job.queue)
            return
        self.queue = card.queue
        self.budget = job.max_attempts or card.queue.settings.max_attempts

    def refusal(self, job: NewJob) -> TaskForgeError | None:
        return self.error if self.queue is None else refusal(job, self.queue)


class JobRows:
    """The rows of one batch of one project."""

    def __init__(self, transaction: Transaction, project: int) -> None:
        self._transaction = transaction
        self._project = project
        self._now = transaction.now
        self.kinds: dict[tuple[str, str, int, str, int | None], Kind] = {}
        self._full: list[tuple[object, ...]] = []
        self._ready: list[tuple[Any, ...]] = []
        self._waiting: list[tuple[object, ...]] = []
        self._tags: list[tuple[object, ...]] = []

    def add(self, index: int, job: NewJob, kind: Kind, identifier: UUID) -> None:
        """A job that asks for more than to be run."""
        assert kind.queue is not None
        now, stored, fence = self._now, identifier.bytes, (identifier.int + 1).to_bytes(16)
        deadline, expires, due = (
            codec.at(job.deadline, now),
            codec.at(job.expires, now),
            codec.at(job.at, now),
        )
        tags = codec.json(job.tags) if job.tags else None
        facts = (
            stored,
            self._project,
            kind.queue.number,
            job.job_type,
            job.priority,
            kind.budget,
            job.requires or None,
        )
        more = (
            deadline,
            expires,
            tags,
            extras_text(job),
            *_kept_as_is(job),
        )
        self._full.append((*facts, job.payload.decode(), *more))
        self._tags.extend((self._project, tag, stored) for tag in job.tags)
        until, keyed = codec.earlier(deadline, expires), int(job.unique_key is not None)
        key = key_in(kind.queue.settings.fairness, job.fairness_key)
        if due is not None and due > now:
            self._waiting.append(
                (
                    fence,
                    self._project,
                    kind.lane,
                    0,
                    kind.budget,
                    0,
                    keyed,
                    due,
                    until,
                    None,
                    key,
                    None,
                )
            )
        else:
            self._ready.append(
                (
                    kind.lane,
                    now + index,
                    fence,
                    self._project,
                    0,
                    kind.budget,
                    0,
                    keyed,
                    until,
                    None,
                    None,
                    key,
                )
            )

    def write(self) -> None:
        transaction = self._transaction
        for key, kind in self.kinds.items():
            if kind.ids:
                self._write_kind(kind, *key[1:4])
                transaction.catalog_cache.tell(self._project, kind.lane, self._now)
                transaction.wakes = True
        if self._full:
            self._write_facts(_FULL, self._full)
            transaction.executemany(sql("put_ready"), self._ready)
            for lane, key in {(row[0], row[-1]) for row in self._ready}:
                transaction.catalog_cache.tell(self._project, lane, self._now, key)
            transaction.executemany(sql("add_waiting"), self._waiting)
            transaction.executemany(sql("add_tag"), self._tags)
            transaction.wakes |= bool(self._ready)

    def _write_kind(self, kind: Kind, job_type: str, priority: int, requires: str) -> None:
        """Plain jobs of one kind: two statements, whatever their number."""
        assert kind.queue is not None
        alike = (
            self._project,
            kind.queue.number,
            job_type,
            priority,
            kind.budget,
            requires or None,
        )
        if sum(map(len, kind.payloads)) <= SMALL_PAYLOAD * len(kind.payloads):
            self._transaction.execute(
                sql("add_facts"), (codec.json(kind.payloads), b"".join(kind.ids), *alike)
            )
        else:
            self._write_facts(
                _PLAIN,
                [
                    (one, *alike, payload)
                    for one, payload in zip(kind.ids, kind.payloads, strict=True)
                ],
            )
        values = (
            codec.json(kind.positions),
            b"".join(kind.fences),
            kind.lane,
            self._now,
            self._project,
            kind.budget,
        )
        self._transaction.execute(sql("add_ready"), values)

    def _write_facts(self, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
        start = 0
        for size in ROWS_AT_ONCE:
            while len(rows) - start >= size:
                flat = [value for row in rows[start : start + size] for value in row]
                self._transaction.execute(_insert_facts(columns, size), flat)
                start += size


@lru_cache
def _insert_facts(columns: tuple[str, ...], count: int) -> str:
    row = "(" + ", ".join("?" * len(columns)) + ")"
    return put_in(sql("add_rows"), COLUMNS=", ".join(columns), ROWS=", ".join([row] * count))
