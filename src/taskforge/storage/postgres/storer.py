"""Writes jobs that were checked: plain ones in one statement, those that ask for more in the steps of a transaction."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.errors import NotFound
from taskforge.domain.job import Inserted, NewJob, Refused, held
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
SEPARATOR = "\x1e"  # as in insert_alike.sql
VERSION = "select version from taskforge.catalog"


class Storer(Store):
    async def targets(self, kinds: set[Kind], newer_than: int | None) -> tuple[Catalog, dict[Kind, Target]]:
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

    async def store_plain(self, catalog: Catalog, columns: list[list[Any]], entries: Sequence[Entry]) -> bool:
        ids, fences, lanes, budgets, payloads = columns
        arguments: list[Any] = [*columns, catalog.version, self.bound_now()]
        text, alike = self.sql("insert_plain"), lanes.count(lanes[0]) == len(lanes) and budgets.count(budgets[0]) == len(budgets)
        if alike:
            lane = catalog.lanes[lanes[0]]
            arguments = [ids, fences, SEPARATOR.join(payloads), catalog.version, self.bound_now(), lane.number]
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

    async def store_rich(
        self,
        connection: Any,
        catalog: Catalog,
        jobs: list[Wanted],
        targets: list[Target],
        accepted: list[int],
        answers: list[Answer],
    ) -> int | None:
        """Keys first, then the jobs that got theirs. Runs inside a transaction, the caller's or ours. When the transaction shows
        another version of the catalog, it writes nothing and returns that."""
        # A stale catalog is found before anything is written, because a caller's transaction cannot be rolled back from here.
        version: int = await connection.fetchval(self.in_schema(VERSION))
        if version != catalog.version:
            return version
        first = {jobs[index][2]: index for index in reversed(accepted)}
        remaining = await self._without_known(connection, jobs, list(first.values())[::-1], answers)
        remaining = await self._take_keys(connection, IDEMPOTENT, jobs, remaining, answers)
        remaining = await self._take_keys(connection, UNIQUE, jobs, remaining, answers)
        if remaining:
            await self._store_facts(connection, jobs, targets, remaining, answers)
        _settle(jobs, accepted, first, answers)
        return None

    async def _store_facts(
        self, connection: Any, jobs: list[Wanted], targets: list[Target], remaining: list[int], answers: list[Answer]
    ) -> None:
        rich = [jobs[index][1] for index in remaining]
        rows = await connection.fetch(
            self.sql("insert"),
            *columns_of(jobs, targets, remaining),
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

    async def answer_known(self, within: Any | None, jobs: list[Wanted], answers: list[Any], *, again: bool) -> None:
        """Whoever asks again for what was stored before gets that as the answer, whatever the queue says to new jobs by now."""
        refused = [index for index, answer in enumerate(answers) if answer is not None]
        given = [index for index in refused if again or jobs[index][1].id is not None]
        keyed = [index for index in refused if jobs[index][1].idempotency_key is not None]
        if not given and not keyed:
            return
        async with self.connection() if within is None else nullcontext(within) as connection:
            for project in {jobs[index][0] for index in keyed}:
                mine = [jobs[index][1].idempotency_key for index in keyed if jobs[index][0] == project]
                rows = await connection.fetch(self.sql("key_holders"), project, mine, self.bound_now())
                holders = {row["key"]: (row["job"], row["body"]) for row in rows}
                for index in keyed:
                    job = jobs[index][1]
                    if jobs[index][0] == project and job.idempotency_key in holders:
                        answers[index] = held(job, *holders[job.idempotency_key])
            await self._without_known(connection, jobs, given, answers)

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
            if scope == IDEMPOTENT:
                answers[index] = held(job, holder, body)
                continue
            answers[index] = Inserted(holder, existed=True)
            if job.idempotency_key is not None:
                # The idempotency key was taken for a job that will not exist: it stands for the holder instead.
                await connection.execute(self.sql("hand_over_key"), project, job.idempotency_key, holder)
        return free


def columns_of(jobs: list[Wanted], targets: list[Target], indexes: list[int]) -> list[list[Any]]:
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
