"""Puts jobs into the store. Concurrent callers share statements and commits."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from taskforge.domain.errors import Conflict, Invalid, KeyTaken, NotFound, QueuePaused, StoreUnavailable
from taskforge.domain.ids import fence_of, is_job_id
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Catalog, LaneKey
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.store import Store

Answer = Inserted | Refused
UNIQUE, IDEMPOTENT = 0, 1
MOST_IN_ONE_STATEMENT = 5_000


class Inserter(Store):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._queued: list[tuple[int, Sequence[NewJob], asyncio.Future[list[Answer]]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        if not jobs:
            return []
        if len(jobs) > MOST_IN_ONE_STATEMENT:
            answers: list[Answer] = []
            for start in range(0, len(jobs), MOST_IN_ONE_STATEMENT):
                answers += await self.insert(project, jobs[start : start + MOST_IN_ONE_STATEMENT])
            return answers
        answer: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._queued.append((project, jobs, answer))
        # Whoever comes while a statement is under way waits for the next one, and shares it.
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())
        return await answer

    async def _flush(self) -> None:
        while self._queued:
            group: list[tuple[int, Sequence[NewJob], asyncio.Future[list[Answer]]]] = []
            size = 0
            while self._queued and (not group or size + len(self._queued[0][1]) <= MOST_IN_ONE_STATEMENT):
                group.append(self._queued.pop(0))
                size += len(group[-1][1])
            wanted = [(project, job) for project, jobs, _ in group for job in jobs]
            try:
                answers = await self._insert(wanted)
            except Exception as error:  # noqa: BLE001 - every caller of the group hears of it
                for _, _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            start = 0
            for _, jobs, future in group:
                if not future.done():
                    future.set_result(answers[start : start + len(jobs)])
                start += len(jobs)

    async def _insert(self, wanted: list[tuple[int, NewJob]]) -> list[Answer]:
        identified = [(project, job, job.id or self.mint()) for project, job in wanted]
        # The ids make a repetition harmless: what an attempt with a lost answer stored is found again, not stored twice.
        for attempt in range(3):
            try:
                return await self._insert_identified(identified, None, again=attempt > 0)
            except StoreUnavailable:
                if attempt == 2:
                    raise
                await asyncio.sleep(0.05 * (attempt + 1))
        raise AssertionError

    async def insert_within(self, connection: Any, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        """Insert inside the caller's own transaction on an asyncpg connection: the jobs exist if and when it commits."""
        identified = [(project, job, job.id or self.mint()) for job in jobs]
        return await self._insert_identified(identified, connection, again=False)

    async def _insert_identified(self, jobs: list[tuple[int, NewJob, UUID]], within: Any | None, *, again: bool) -> list[Answer]:
        newer_than: int | None = None
        while True:
            await self.catalog(newer_than=newer_than)
            catalog = await self._with_lanes(jobs)
            answers, accepted = self._check(catalog, jobs)
            rich = again or any(not _is_plain(jobs[index][1]) for index in accepted)
            if not accepted:
                done = await self.value(_VERSION) == catalog.version
            elif within is not None:
                done = await self._store_rich(within, catalog, jobs, accepted, answers)
            elif rich:
                async with self.transaction() as connection:
                    done = await self._store_rich(connection, catalog, jobs, accepted, answers)
            else:
                done = await self._store_plain(catalog, jobs, accepted, answers)
            if done:
                if accepted:
                    self.signals.send()
                return answers
            newer_than = catalog.version

    async def _with_lanes(self, jobs: list[tuple[int, NewJob, UUID]]) -> Catalog:
        catalog = await self.catalog()
        keys: set[LaneKey] = set()
        for project, job, _ in jobs:
            try:
                queue = catalog.queue_named(project, job.queue)
            except NotFound:
                continue
            keys.add((queue.number, job.job_type, job.priority, job.requires))
        return await self.lane_numbers(keys)

    @staticmethod
    def _check(catalog: Catalog, jobs: list[tuple[int, NewJob, UUID]]) -> tuple[list[Any], list[int]]:
        """Each job's refusal, or None for those that may be stored, whose indexes come second."""
        answers: list[Answer | None] = []
        accepted = []
        for index, (project, job, identifier) in enumerate(jobs):
            try:
                _check_against(catalog.queue_named(project, job.queue), job, identifier)
            except (NotFound, Conflict, Invalid) as error:
                answers.append(Refused(error))
            else:
                answers.append(None)
                accepted.append(index)
        return answers, accepted

    def _columns(self, catalog: Catalog, jobs: list[tuple[int, NewJob, UUID]], indexes: list[int]) -> list[list[Any]]:
        ids, fences, lanes, budgets, payloads = [], [], [], [], []
        for index in indexes:
            project, job, identifier = jobs[index]
            queue = catalog.queue_named(project, job.queue)
            ids.append(identifier)
            fences.append(fence_of(identifier, 1))
            lanes.append(catalog.lane((queue.number, job.job_type, job.priority, job.requires)))
            budgets.append(job.max_attempts or queue.settings.max_attempts)
            payloads.append(job.payload.decode())
        return [ids, fences, lanes, budgets, payloads]

    async def _store_plain(
        self, catalog: Catalog, jobs: list[tuple[int, NewJob, UUID]], accepted: list[int], answers: list[Answer]
    ) -> bool:
        columns = self._columns(catalog, jobs, accepted)
        async with self.connection() as connection:
            status = await connection.execute(self.sql("insert_plain"), *columns, catalog.version, self.bound_now())
        for index in accepted:
            answers[index] = Inserted(jobs[index][2])
        return status != "INSERT 0 0"

    async def _store_rich(
        self,
        connection: Any,
        catalog: Catalog,
        jobs: list[tuple[int, NewJob, UUID]],
        accepted: list[int],
        answers: list[Answer],
    ) -> bool:
        """Keys first, then the jobs that got theirs. Runs inside a transaction, the caller's or ours."""
        now = self.bound_now()
        # A stale catalog is found before anything is written, because a caller's transaction cannot be rolled back from here.
        if await connection.fetchval(self.in_schema(_VERSION)) != catalog.version:
            return False
        remaining = await self._without_known(connection, jobs, accepted, answers)
        remaining = await self._take_keys(connection, IDEMPOTENT, jobs, remaining, answers)
        remaining = await self._take_keys(connection, UNIQUE, jobs, remaining, answers)
        if not remaining:
            return True
        rich = [jobs[index][1] for index in remaining]
        rows = await connection.fetch(
            self.sql("insert"),
            *self._columns(catalog, jobs, remaining),
            now,
            [codec.instant(job.at) for job in rich],
            [codec.seconds(job.at) for job in rich],
            [codec.instant(job.deadline) for job in rich],
            [codec.seconds(job.deadline) for job in rich],
            [codec.instant(job.expires) for job in rich],
            [codec.seconds(job.expires) for job in rich],
            [job.timeout_seconds for job in rich],
            [codec.array_literal(job.tags) for job in rich],
            [job.unique_key for job in rich],
            [job.idempotency_key for job in rich],
            [job.fairness_key for job in rich],
            [job.trace for job in rich],
        )
        fresh = {row["job"] for row in rows}
        for index in remaining:
            identifier = jobs[index][2]
            answers[index] = Inserted(identifier, identifier not in fresh)
        return True

    async def _without_known(
        self, connection: Any, jobs: list[tuple[int, NewJob, UUID]], indexes: list[int], answers: list[Answer]
    ) -> list[int]:
        """Answer for jobs that are stored already, before they take keys a second time; of one id twice, the second is known."""
        rows = await connection.fetch(self.sql("known_ids"), [jobs[index][2] for index in indexes])
        known = {row["id"] for row in rows}
        new = []
        for index in indexes:
            identifier = jobs[index][2]
            if identifier in known:
                answers[index] = Inserted(identifier, existed=True)
            else:
                known.add(identifier)
                new.append(index)
        return new

    async def _take_keys(
        self,
        connection: Any,
        scope: int,
        jobs: list[tuple[int, NewJob, UUID]],
        indexes: list[int],
        answers: list[Answer],
    ) -> list[int]:
        """Take the keys of one scope and answer for the jobs whose key is held; returns the others."""
        wanted: dict[tuple[int, str], int] = {}
        for index in indexes:
            project, job, _ = jobs[index]
            key = job.idempotency_key if scope == IDEMPOTENT else job.unique_key
            if key is not None:
                wanted.setdefault((project, key), index)  # the first of equal keys wins
        holders: dict[tuple[int, str], tuple[UUID, bytes | None]] = {}
        for project in {project for project, _ in wanted}:
            mine = [(key, jobs[index]) for (owner, key), index in wanted.items() if owner == project]
            rows = await connection.fetch(
                self.sql("take_keys"),
                project,
                [scope] * len(mine),
                [key for key, _ in mine],
                [identifier for _, (_, _, identifier) in mine],
                [job.body_hash() if scope == IDEMPOTENT else None for _, (_, job, _) in mine],
                [job.idempotency_seconds if scope == IDEMPOTENT else None for _, (_, job, _) in mine],
                self.bound_now(),
            )
            holders |= {(project, row["key"]): (row["job"], row["body"]) for row in rows}
        free = []
        for index in indexes:
            project, job, identifier = jobs[index]
            key = job.idempotency_key if scope == IDEMPOTENT else job.unique_key
            if key is None or holders[project, key][0] == identifier:
                free.append(index)
                continue
            holder, body = holders[project, key]
            if scope == IDEMPOTENT and body != job.body_hash():
                answers[index] = Refused(KeyTaken(key, holder))
                continue
            answers[index] = Inserted(holder, existed=True)
            if scope == UNIQUE and job.idempotency_key is not None:
                # The idempotency key was taken for a job that will not exist: it stands for the holder instead.
                await connection.execute(self.sql("hand_over_key"), project, job.idempotency_key, holder)
        return free


_VERSION = "select version from taskforge.catalog"


def _is_plain(job: NewJob) -> bool:
    return (
        job.id is None
        and job.at is None
        and job.deadline is None
        and job.expires is None
        and job.timeout_seconds is None
        and job.unique_key is None
        and job.idempotency_key is None
        and job.fairness_key is None
        and job.trace is None
        and not job.tags
    )


def _check_against(queue: Queue, job: NewJob, identifier: UUID) -> None:
    if not queue.is_active and not queue.settings.accept_while_paused:
        raise QueuePaused(queue.name)
    if len(job.payload) > queue.settings.payload_limit_bytes:
        limit = queue.settings.payload_limit_bytes
        raise Invalid("payload", f"takes {len(job.payload):,} bytes as JSON", f"queue {queue.name!r} allows {limit:,}")
    if not is_job_id(identifier):
        raise Invalid("id", f"{identifier} is not a job id", "use a UUIDv7 whose last 24 bits are zero, or none")
