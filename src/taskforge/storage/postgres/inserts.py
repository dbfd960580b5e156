"""Puts jobs into the store: checks them against their queues, and asks again when an answer was
lost."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.admission import refusal
from taskforge.domain.alike import Alike
from taskforge.domain.errors import Conflict, StoreUnavailable
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.bookkeeping import enter
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.insert_statements import (
    Answer,
    InsertStatements,
    Wanted,
    arrivals_of,
    columns_of,
)
from taskforge.storage.postgres.insert_targets import InsertTargets, Target, lanes_of
from taskforge.storage.postgres.signals import Arrival, Signals

MOST_IN_ONE_STATEMENT = 5_000
TRIES = 3


class PostgresInserts:
    def __init__(
        self, connections: PostgresConnections, catalog_cache: CatalogCache, signals: Signals
    ) -> None:
        self._connections = connections
        self._signals = signals
        self._targets = InsertTargets(connections, catalog_cache)
        self._statements = InsertStatements(connections, signals)

    async def insert_jobs(self, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        if type(jobs) is Alike and jobs.template.is_plain:
            return await self._insert_alike(project, jobs)
        return await self.insert_wanted([(project, job) for job in jobs])

    async def _insert_alike(self, project: int, jobs: Alike) -> list[Answer]:
        """Column by column, as long as all is well; whatever is not is left to the way that looks
        at each."""
        numbers = self._connections.mint.many(len(jobs))
        ids, tries = [codec.uuid(number) for number in numbers], 0
        try:
            if await self._store_alike(
                project, jobs, ids, [codec.uuid(number | 1) for number in numbers]
            ):
                return [Inserted(identifier) for identifier in ids]
        except StoreUnavailable:
            tries = 1
        return await self._insert_patiently(
            [(project, one, identifier) for one, identifier in zip(jobs, ids, strict=True)], tries
        )

    async def _store_alike(
        self, project: int, jobs: Alike, ids: list[UUID], fences: list[UUID]
    ) -> bool:
        job = jobs.template
        kind = (project, job.queue, job.job_type, job.priority, job.requires)
        versions, by_kind = await self._targets.find({kind})
        target = by_kind[kind]
        if not isinstance(target, tuple) or refusal(jobs.longest(), target[0]) is not None:
            return False
        queue, lane = target
        budget = job.max_attempts or queue.settings.max_attempts
        payloads = [payload.decode() for payload in jobs.payloads]
        return await self._statements.store_plain(
            versions,
            [lane] * len(ids),
            [ids, fences, [budget] * len(ids), payloads],
            trail.alike_inserted(project, jobs, ids[0]),
        )

    async def insert_wanted(
        self, wanted: list[tuple[int, NewJob]], turn: asyncio.Lock | None = None
    ) -> list[Answer]:
        fresh = self._connections.mint.many(len(wanted))
        identified = [
            (project, job, job.id or codec.uuid(number))
            for (project, job), number in zip(wanted, fresh, strict=True)
        ]
        return await self._insert_patiently(identified, 0, turn)

    async def _insert_patiently(
        self, jobs: list[Wanted], tries: int, turn: asyncio.Lock | None = None
    ) -> list[Answer]:
        """The ids make a repetition harmless: what an attempt with a lost answer stored is found
        again, not stored twice."""
        while True:
            if tries:
                await asyncio.sleep(0.05 * tries)
            try:
                return await self._insert_identified(jobs, None, again=tries > 0, turn=turn)
            except StoreUnavailable:
                tries += 1
                if tries == TRIES:
                    raise

    async def insert_within(
        self, connection: Any, project: int, jobs: Sequence[NewJob]
    ) -> list[Answer]:
        """Insert inside the caller's own transaction on an asyncpg connection: the jobs exist if
        and when it commits. What that connection raises stays as it is: whoever repeats a
        transaction after a conflict knows it by the driver's name."""
        identified = [(project, job, job.id or self._connections.mint()) for job in jobs]
        return await self._insert_within(connection, identified, again=False)

    async def insert_wanted_within(
        self, connection: Any, wanted: Sequence[tuple[int, NewJob]], told: set[Arrival]
    ) -> list[Answer]:
        """The same for jobs of several projects, in a transaction of our own. `told` gets where the
        jobs came to."""
        identified = [(project, job, job.id or self._connections.mint()) for project, job in wanted]
        return await self._insert_within(connection, identified, again=False, told=told)

    async def insert_as_one(self, project: int, jobs: Sequence[NewJob]) -> list[Answer]:
        """More than a statement takes, all or nothing: one entry in the audit log tells of all of
        them."""
        identified = [(project, job, job.id or self._connections.mint()) for job in jobs]
        tries = itertools.count()
        told: set[Arrival] = set()

        async def once() -> list[Answer]:
            async with self._connections.transaction() as connection:
                return await self._insert_within(
                    connection, identified, again=next(tries) > 0, told=told
                )

        answers = await self._connections.until_undisturbed(once)
        self._signals.send(told)
        return answers

    async def _insert_within(
        self,
        connection: Any,
        jobs: list[Wanted],
        *,
        again: bool,
        told: set[Arrival] | None = None,
    ) -> list[Answer]:
        """`told` gets where the jobs came to."""
        answers: list[Answer] = []
        for start in range(0, len(jobs), MOST_IN_ONE_STATEMENT):
            answers += await self._insert_identified(
                jobs[start : start + MOST_IN_ONE_STATEMENT], connection, again=again, told=told
            )
        await enter(self._connections, connection, trail.jobs_inserted(_stored(jobs, answers)))
        return answers

    async def _insert_identified(
        self,
        jobs: list[Wanted],
        within: Any | None,
        *,
        again: bool,
        turn: asyncio.Lock | None = None,
        told: set[Arrival] | None = None,
    ) -> list[Answer]:
        kinds = [
            (project, job.queue, job.job_type, job.priority, job.requires)
            for project, job, _ in jobs
        ]
        # versions of a catalog that the caller's transaction showed, none of them ours
        shown: list[tuple[int, int]] = []
        while True:
            versions, by_kind = await self._targets.find(dict.fromkeys(kinds))
            targets = [by_kind[kind] for kind in kinds]
            answers, accepted = _check(jobs, targets)
            if len(accepted) < len(jobs):
                await self._statements.answer_known(within, jobs, answers, again=again)
            if not accepted:
                done = await self._targets.are_in_force(versions)
            elif within is not None:
                behind = await self._statements.store_rich(
                    within, versions, jobs, targets, accepted, answers
                )
                done = behind is None
                if behind is not None:
                    _check_that_it_moves(shown, *behind)
            elif again or not all(jobs[index][1].is_plain for index in accepted):
                async with turn or nullcontext(), self._connections.transaction() as connection:
                    done = (
                        await self._statements.store_rich(
                            connection, versions, jobs, targets, accepted, answers
                        )
                        is None
                    )
                    if done:
                        await enter(
                            self._connections,
                            connection,
                            trail.jobs_inserted(_stored(jobs, answers)),
                        )
            else:
                for index in accepted:
                    answers[index] = Inserted(jobs[index][2])
                noted = any([job.note is not None for _, job, _ in jobs])  # noqa: C419 - twice as fast as a generator
                entries = trail.jobs_inserted(_stored(jobs, answers)) if noted else []
                columns, goals = columns_of(jobs, targets, accepted), lanes_of(targets, accepted)
                async with turn or nullcontext():
                    done = await self._statements.store_plain(versions, goals, columns, entries)
                if done:
                    return answers
                done = False
            if done:
                arrivals = arrivals_of(jobs, targets, accepted)
                if told is not None:
                    told.update(arrivals)
                elif accepted:
                    self._signals.send(arrivals)
                return answers
            await self._targets.update(versions)


def _check_that_it_moves(
    shown: list[tuple[int, int]], project: int, version: int, ours: int
) -> None:
    """Add this version to those shown before. One that stays where it is would be waited for until
    the end of the transaction."""
    shown.append((project, version))
    if len(shown) >= TRIES and set(shown[-TRIES:]) == {(project, version)}:
        raise Conflict(
            f"this transaction shows version {version:,} of the project's queues, and version "
            f"{ours:,} is in force: they "
            "changed after its snapshot was taken. Insert in a new transaction, or use READ "
            "COMMITTED instead of REPEATABLE "
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
        error = refusal(job, target[0]) if isinstance(target, tuple) else target
        answers.append(None if error is None else Refused(error))
        if error is None:
            accepted.append(index)
    return answers, accepted
