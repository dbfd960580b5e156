"""Puts jobs into the store. Concurrent callers share statements and commits."""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.errors import Conflict, NotFound, StoreUnavailable
from taskforge.domain.job import LARGE_CALL, Alike, Inserted, NewJob, Refused, refusal
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.storer import VERSION, Answer, Storer, Target, Wanted, columns_of

MOST_IN_ONE_STATEMENT = 5_000
TRIES = 3


class Inserter(Storer):
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
            while self._queued and max(len(group[0][1]), len(self._queued[0][1])) < LARGE_CALL and size < MOST_IN_ONE_STATEMENT:
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
        numbers = self.mint.many(len(jobs))
        ids, tries = [codec.uuid(number) for number in numbers], 0
        try:
            if await self._store_alike(project, jobs, ids, [codec.uuid(number | 1) for number in numbers]):
                return [Inserted(identifier) for identifier in ids]
        except StoreUnavailable:
            tries = 1
        return await self._insert_patiently([(project, one, identifier) for one, identifier in zip(jobs, ids, strict=True)], tries)

    async def _store_alike(self, project: int, jobs: Alike, ids: list[UUID], fences: list[UUID]) -> bool:
        job = jobs.template
        kind = (project, job.queue, job.job_type, job.priority, job.requires)
        catalog, by_kind = await self.targets({kind}, None)
        target = by_kind[kind]
        if isinstance(target, NotFound) or refusal(jobs.longest(), target[0]) is not None:
            return False
        queue, lane = target
        budget = job.max_attempts or queue.settings.max_attempts
        columns: list[list[Any]] = [
            ids,
            fences,
            [lane] * len(ids),
            [budget] * len(ids),
            [payload.decode() for payload in jobs.payloads],
        ]
        return await self.store_plain(catalog, columns, trail.alike_inserted(project, jobs, ids[0]))

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
        """Insert inside the caller's own transaction on an asyncpg connection: the jobs exist if and when it commits. What that
        connection raises stays as it is: whoever repeats a transaction after a conflict knows it by the driver's name."""
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
        shown: list[int] = []  # versions of the catalog that the caller's transaction showed, none of them ours
        while True:
            catalog, by_kind = await self.targets(set(kinds), newer_than)
            targets = [by_kind[kind] for kind in kinds]
            answers, accepted = _check(jobs, targets)
            if len(accepted) < len(jobs):
                await self.answer_known(within, jobs, answers, again=again)
            if not accepted:
                done = await self.value(VERSION) == catalog.version
            elif within is not None:
                version = await self.store_rich(within, catalog, jobs, targets, accepted, answers)
                done = version is None
                if version is not None:
                    _check_that_it_moves(shown, version, catalog.version)
            elif again or not all(jobs[index][1].is_plain for index in accepted):
                async with turn or nullcontext(), self.transaction() as connection:
                    done = await self.store_rich(connection, catalog, jobs, targets, accepted, answers) is None
                    if done:
                        await self.enter(connection, trail.jobs_inserted(_stored(jobs, answers)))
            else:
                for index in accepted:
                    answers[index] = Inserted(jobs[index][2])
                noted = any([job.note is not None for _, job, _ in jobs])  # noqa: C419 - twice as fast as a generator
                entries = trail.jobs_inserted(_stored(jobs, answers)) if noted else []
                columns = columns_of(jobs, targets, accepted)
                async with turn or nullcontext():
                    done = await self.store_plain(catalog, columns, entries)
                if done:
                    return answers
                done = False
            if done:
                if accepted:
                    self.signals.send()
                return answers
            newer_than = catalog.version


def _check_that_it_moves(shown: list[int], version: int, ours: int) -> None:
    """Add this version to those shown before. One that stays where it is would be waited for until the end of the transaction."""
    shown.append(version)
    if len(shown) >= TRIES and set(shown[-TRIES:]) == {version}:
        raise Conflict(
            f"this transaction shows version {version:,} of the queues and job types, and version {ours:,} is in force: they "
            "changed after its snapshot was taken. Insert in a new transaction, or use READ COMMITTED instead of REPEATABLE "
            "READ or SERIALIZABLE"
        )


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
