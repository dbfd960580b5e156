"""Puts jobs into the store. Concurrent callers share statements and commits."""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import trail
from taskforge.domain.errors import KeyTaken, NotFound, StoreUnavailable
from taskforge.domain.job import Alike, Inserted, NewJob, Refused, refusal
from taskforge.domain.queue import Queue
from taskforge.domain.trail import Entry
from taskforge.storage.catalog import Catalog
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.store import Store

Answer = Inserted | Refused
Wanted = tuple[int, NewJob, UUID]
"""A job with its project and its id."""
Kind = tuple[int, str, str, int, str]
"""(project, queue, job type, priority, requires): jobs alike in these go to the same lane."""
Target = NotFound | tuple[Queue, int | None]
"""The queue and the lane, or why there is none."""
UNIQUE, IDEMPOTENT = 0, 1
MOST_IN_ONE_STATEMENT = 5_000
LARGE = 200
TRIES = 3


class Inserter(Store):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._queued: deque[tuple[int, Sequence[NewJob], asyncio.Future[list[Answer]]]] = deque()
        self._busy = False
        self._flushing: asyncio.Task[None] | None = None

    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        if not jobs:
            return []
        if len(jobs) > MOST_IN_ONE_STATEMENT:
            if any(job.note is not None for job in jobs):
                return await self._insert_as_one(project, jobs)
            return await self._insert_in_slices(project, jobs)
        if self._busy:
            # Whoever comes while a statement is under way waits for the next one, and shares it.
            answer: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
            self._queued.append((project, jobs, answer))
            return await answer
        self._busy = True
        try:
            return await self._insert_call(project, jobs)
        finally:
            self._next()

    async def _insert_in_slices(self, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        """Slice after slice, in order; while the database stores one the next is made ready: 124k instead of 95k jobs a second."""
        turn, answers = asyncio.Lock(), []
        under_way: deque[asyncio.Task[list[Answer]]] = deque()
        try:
            for start in range(0, len(jobs), MOST_IN_ONE_STATEMENT):
                wanted = [(project, job) for job in jobs[start : start + MOST_IN_ONE_STATEMENT]]
                under_way.append(asyncio.ensure_future(self._insert(wanted, turn)))
                if len(under_way) == 2:
                    answers += await under_way.popleft()
            while under_way:
                answers += await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()
        return answers

    def _next(self) -> None:
        """A statement has ended: those who came meanwhile are next."""
        self._busy = bool(self._queued)
        if self._busy:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            group = [self._queued.popleft()]
            size = len(group[0][1])
            # Sharing is for small calls: what is large and alike is quicker by itself.
            while self._queued and size + len(self._queued[0][1]) <= MOST_IN_ONE_STATEMENT and not _stands_alone(group[0][1]):
                if _stands_alone(self._queued[0][1]):
                    break
                group.append(self._queued.popleft())
                size += len(group[-1][1])
            try:
                if len(group) == 1:
                    answers = await self._insert_call(*group[0][:2])
                else:
                    answers = await self._insert([(project, job) for project, jobs, _ in group for job in jobs])
            except Exception as error:  # noqa: BLE001 - every caller of the group hears of it
                for _, _, future in group:
                    if not future.done():
                        future.set_exception(error)
                return
            start = 0
            for _, jobs, future in group:
                if not future.done():
                    future.set_result(answers[start : start + len(jobs)])
                start += len(jobs)
        finally:
            self._next()

    async def _insert_call(self, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        if type(jobs) is Alike and jobs.template.is_plain:
            return await self._insert_alike(project, jobs)
        return await self._insert([(project, job) for job in jobs])

    async def _insert_alike(self, project: int, jobs: Alike) -> list[Answer]:
        """Column by column, as long as all is well; whatever is not is left to the way that looks at each."""
        job, numbers = jobs.template, self.mint.many(len(jobs))
        kind = (project, job.queue, job.job_type, job.priority, job.requires)
        catalog, by_kind = await self._targets({kind}, None)
        target, ids, tries = by_kind[kind], [codec.uuid(number) for number in numbers], 0
        if not isinstance(target, NotFound) and refusal(jobs.longest(), target[0]) is None:
            queue, lane = target
            columns: list[list[Any]] = [
                ids,
                [codec.uuid(number | 1) for number in numbers],
                [lane] * len(ids),
                [job.max_attempts or queue.settings.max_attempts] * len(ids),
                [payload.decode() for payload in jobs.payloads],
            ]
            try:
                if await self._store_plain(catalog, columns, trail.alike_inserted(project, jobs, ids[0])):
                    return [Inserted(identifier) for identifier in ids]
            except StoreUnavailable:
                tries = 1
        return await self._insert_patiently([(project, one, identifier) for one, identifier in zip(jobs, ids, strict=True)], tries)

    async def _insert(self, wanted: list[tuple[int, NewJob]], turn: asyncio.Lock | None = None) -> list[Answer]:
        fresh = self.mint.many(len(wanted))
        identified = [(project, job, job.id or codec.uuid(number)) for (project, job), number in zip(wanted, fresh, strict=True)]
        return await self._insert_patiently(identified, 0, turn)

    async def _insert_patiently(self, jobs: list[Wanted], tries: int, turn: asyncio.Lock | None = None) -> list[Answer]:
        """The ids make a repetition harmless: what an attempt with a lost answer stored is found again, not stored twice."""
        while True:
            if tries:
                await asyncio.sleep(0.05 * tries)
            try:
                return await self._insert_identified(jobs, None, again=tries > 0, turn=turn)
            except StoreUnavailable:
                tries += 1
                if tries == TRIES:
                    raise

    async def insert_within(self, connection: Any, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        """Insert inside the caller's own transaction on an asyncpg connection: the jobs exist if and when it commits."""
        identified = [(project, job, job.id or self.mint()) for job in jobs]
        return await self._insert_within(connection, identified, again=False)

    async def _insert_as_one(self, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        """More than a statement takes, all or nothing: one entry in the audit log tells of all of them."""
        identified = [(project, job, job.id or self.mint()) for job in jobs]
        tries = itertools.count()

        async def once() -> list[Answer]:
            async with self.transaction() as connection:
                return await self._insert_within(connection, identified, again=next(tries) > 0)

        answers = await self.until_undisturbed(once)
        self.signals.send()
        return answers

    async def _insert_within(self, connection: Any, jobs: list[Wanted], *, again: bool) -> list[Answer]:
        answers: list[Answer] = []
        for start in range(0, len(jobs), MOST_IN_ONE_STATEMENT):
            answers += await self._insert_identified(jobs[start : start + MOST_IN_ONE_STATEMENT], connection, again=again)
        await self.enter(connection, trail.jobs_inserted(_stored(jobs, answers)))
        return answers

    async def _insert_identified(
        self, jobs: list[Wanted], within: Any | None, *, again: bool, turn: asyncio.Lock | None = None
    ) -> list[Answer]:
        kinds = [(project, job.queue, job.job_type, job.priority, job.requires) for project, job, _ in jobs]
        newer_than: int | None = None
        while True:
            catalog, by_kind = await self._targets(set(kinds), newer_than)
            targets = [by_kind[kind] for kind in kinds]
            answers, accepted = _check(jobs, targets)
            if not accepted:
                done = await self.value(_VERSION) == catalog.version
            elif within is not None:
                done = await self._store_rich(within, catalog, jobs, targets, accepted, answers)
            elif again or not all(jobs[index][1].is_plain for index in accepted):
                async with turn or nullcontext(), self.transaction() as connection:
                    done = await self._store_rich(connection, catalog, jobs, targets, accepted, answers)
                    if done:
                        await self.enter(connection, trail.jobs_inserted(_stored(jobs, answers)))
            else:
                for index in accepted:
                    answers[index] = Inserted(jobs[index][2])
                noted = any([job.note is not None for _, job, _ in jobs])  # noqa: C419 - twice as fast as a generator
                entries = trail.jobs_inserted(_stored(jobs, answers)) if noted else []
                columns = _columns(jobs, targets, accepted)
                async with turn or nullcontext():
                    done = await self._store_plain(catalog, columns, entries)
                if done:
                    return answers
                done = False
            if done:
                if accepted:
                    self.signals.send()
                return answers
            newer_than = catalog.version

    async def _targets(self, kinds: set[Kind], newer_than: int | None) -> tuple[Catalog, dict[Kind, Target]]:
        """Where jobs of each kind go; the first of a new kind makes its lane."""
        catalog = await self.catalog(newer_than=newer_than)
        queues: dict[Kind, Queue | NotFound] = {}
        for kind in kinds:
            try:
                queues[kind] = catalog.queue_named(kind[0], kind[1])
            except NotFound as error:
                queues[kind] = error
        keys = {kind: (queue.number, *kind[2:]) for kind, queue in queues.items() if isinstance(queue, Queue)}
        catalog = await self.lane_numbers(set(keys.values()))
        return catalog, {
            kind: queue if isinstance(queue, NotFound) else (queue, catalog.lane(keys[kind])) for kind, queue in queues.items()
        }

    async def _store_plain(self, catalog: Catalog, columns: list[list[Any]], entries: Sequence[Entry]) -> bool:
        ids, fences, lanes, budgets, payloads = columns
        arguments: list[Any] = [*columns, catalog.version, self.bound_now()]
        text, alike = self.sql("insert_plain"), lanes.count(lanes[0]) == len(lanes) and budgets.count(budgets[0]) == len(budgets)
        if alike:
            lane = catalog.lanes[lanes[0]]
            arguments = [ids, fences, payloads, catalog.version, self.bound_now(), lane.number]
            arguments += [lane.project, lane.queue, lane.job_type, lane.priority, lane.requires or None, budgets[0]]
            text = self.sql("insert_alike")
        tells = alike and len(ids) == 1 and self.signals.may_ride()
        if tells:
            arguments.append(self.signals.channel)
            text += f"\nreturning pg_notify(${len(arguments)}, '')"
        if entries:
            arguments.append(codec.json_text(entries))
            text = self._noted(text, version=4 if alike else 6, now=5 if alike else 7, entries=len(arguments))
        async with self.connection() as connection:
            with self.signals.riding() if tells else nullcontext():
                status = await connection.execute(text, *arguments)
        stored: bool = status != "INSERT 0 0"
        if stored and not tells:
            self.signals.send()
        return stored

    def _noted(self, text: str, *, version: int, now: int, entries: int) -> str:
        """The statement with one that leaves audit entries in front of it; given are the places of what both need."""
        noted = self.sql("note_inserts").replace("$version", f"${version}").replace("$now", f"${now}")
        return noted.replace("$entries", f"${entries}") + ",\n" + text.removeprefix("with ")

    async def _store_rich(
        self,
        connection: Any,
        catalog: Catalog,
        jobs: list[Wanted],
        targets: list[Target],
        accepted: list[int],
        answers: list[Answer],
    ) -> bool:
        """Keys first, then the jobs that got theirs. Runs inside a transaction, the caller's or ours."""
        # A stale catalog is found before anything is written, because a caller's transaction cannot be rolled back from here.
        if await connection.fetchval(self.in_schema(_VERSION)) != catalog.version:
            return False
        first = {jobs[index][2]: index for index in reversed(accepted)}
        remaining = await self._without_known(connection, jobs, list(first.values())[::-1], answers)
        remaining = await self._take_keys(connection, IDEMPOTENT, jobs, remaining, answers)
        remaining = await self._take_keys(connection, UNIQUE, jobs, remaining, answers)
        if remaining:
            await self._store_facts(connection, jobs, targets, remaining, answers)
        _settle(jobs, accepted, first, answers)
        return True

    async def _store_facts(
        self, connection: Any, jobs: list[Wanted], targets: list[Target], remaining: list[int], answers: list[Answer]
    ) -> None:
        rich = [jobs[index][1] for index in remaining]
        rows = await connection.fetch(
            self.sql("insert"),
            *_columns(jobs, targets, remaining),
            self.bound_now(),
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

    async def _without_known(self, connection: Any, jobs: list[Wanted], indexes: list[int], answers: list[Answer]) -> list[int]:
        """Answer for jobs that are stored already, before they take keys a second time."""
        rows = await connection.fetch(self.sql("known_ids"), [jobs[index][2] for index in indexes])
        known = {row["id"] for row in rows}
        for index in indexes:
            if jobs[index][2] in known:
                answers[index] = Inserted(jobs[index][2], existed=True)
        return [index for index in indexes if jobs[index][2] not in known]

    async def _take_keys(
        self,
        connection: Any,
        scope: int,
        jobs: list[Wanted],
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


def _stands_alone(jobs: Sequence[NewJob]) -> bool:
    return type(jobs) is Alike and len(jobs) >= LARGE


def _stored(jobs: list[Wanted], answers: list[Answer]) -> Iterator[Wanted]:
    """Those that were really stored."""
    for wanted, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, Inserted) and not answer.existed:
            yield wanted


def _check(jobs: list[Wanted], targets: list[Target]) -> tuple[list[Any], list[int]]:
    """Each job's refusal, or None for those that may be stored, whose indexes come second."""
    answers: list[Answer | None] = []
    accepted = []
    for index, ((_, job, _), target) in enumerate(zip(jobs, targets, strict=True)):
        error = target if isinstance(target, NotFound) else refusal(job, target[0])
        answers.append(None if error is None else Refused(error))
        if error is None:
            accepted.append(index)
    return answers, accepted


def _columns(jobs: list[Wanted], targets: list[Target], indexes: list[int]) -> list[list[Any]]:
    ids, fences, lanes, budgets, payloads = [], [], [], [], []
    for index in indexes:
        _, job, identifier = jobs[index]
        target = targets[index]
        assert not isinstance(target, NotFound)
        ids.append(identifier)
        fences.append(codec.uuid(identifier.int | 1))
        lanes.append(target[1])
        budgets.append(job.max_attempts or target[0].settings.max_attempts)
        payloads.append(job.payload.decode())
    return [ids, fences, lanes, budgets, payloads]


def _settle(jobs: list[Wanted], accepted: list[int], first: dict[UUID, int], answers: list[Answer]) -> None:
    """Of one id twice, the second gets the answer of the first; and no answer names a job that was itself turned away."""
    for index in accepted:
        answer = answers[first[jobs[index][2]]]
        if index != first[jobs[index][2]]:
            answers[index] = Inserted(answer.job, existed=True) if isinstance(answer, Inserted) else answer
    turned_away = {jobs[index][2]: answer for index in accepted if isinstance(answer := answers[index], Inserted)}
    for index in accepted:
        answer = answers[index]
        if isinstance(answer, Inserted) and answer.existed:
            answers[index] = msgspec.structs.replace(turned_away.get(answer.job, answer), existed=True)
