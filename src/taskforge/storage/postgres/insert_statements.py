"""Writes jobs that were checked: plain ones in one statement, those that ask for more in the steps
of a transaction."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.admission import held
from taskforge.domain.errors import Conflict
from taskforge.domain.fairness import key_in
from taskforge.domain.job import KEPT_AS_IS, Inserted, NewJob, Refused, extras_text
from taskforge.domain.trail import Entry
from taskforge.storage.catalog import Lane, spot_of
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.insert_targets import Target, Versions, lanes_of
from taskforge.storage.postgres.signals import Arrival, Signals

Answer = Inserted | Refused
Wanted = tuple[int, NewJob, UUID]
"""A job with its project and its id."""
UNIQUE, IDEMPOTENT = 0, 1
SEPARATOR = "\x1e"  # as in insert_alike.sql
EARLY_MICROSECONDS = 5_000  # by which our reading of the store's clock may be ahead of it


class InsertStatements:
    def __init__(self, connections: PostgresConnections, signals: Signals) -> None:
        self._connections = connections
        self._signals = signals

    async def store_plain(
        self,
        versions: Versions,
        lanes: Sequence[Lane],
        columns: list[list[Any]],
        entries: Sequence[Entry],
    ) -> bool:
        """`columns`: ids, fences, budgets and payloads of the jobs of these lanes."""
        ids, fences, budgets, payloads = columns
        now, lane = self._connections.bound_now(), lanes[0]
        # on the store's clock, and no later than the turns that it will give
        turn = self._connections.milliseconds() * 1_000 - EARLY_MICROSECONDS
        alike = lanes.count(lane) == len(lanes) and budgets.count(budgets[0]) == len(budgets)
        tells = alike and len(ids) == 1 and self._signals.may_ride()
        if alike:
            name = "insert_alike_noted" if entries else "insert_alike"
            arguments: list[Any] = [ids, fences, SEPARATOR.join(payloads)]
            arguments += [versions[lane.project], now, lane.number, lane.project, lane.queue]
            arguments += [lane.job_type, lane.priority, lane.requires or None, budgets[0]]
        else:
            name = "insert_plain_noted" if entries else "insert_plain"
            arguments = [ids, fences, [lane.number for lane in lanes], budgets, payloads]
            arguments += [list(versions.values()), now, list(versions)]
        if entries:
            arguments.append(codec.json_text(entries))
        if tells:
            name = "insert_alike_noted_telling" if entries else "insert_alike_telling"
            arguments += [self._signals.channel, f"{lane.project}:{lane.number}"]
        async with self._connections.connection() as connection:
            with self._signals.riding() if tells else nullcontext():
                status = await connection.execute(self._connections.sql(name), *arguments)
        stored: bool = status != "INSERT 0 0"
        if stored:
            arrivals = {(lane.project, lane.number, turn) for lane in lanes}
            if tells:
                self._signals.rode(arrivals.pop())
            else:
                self._signals.send(arrivals)
        return stored

    async def store_rich(
        self,
        connection: Any,
        versions: Versions,
        jobs: list[Wanted],
        targets: list[Target],
        accepted: list[int],
        answers: list[Answer],
    ) -> tuple[int, int, int] | None:
        """Keys first, then the jobs that got theirs. Runs inside a transaction, the caller's or
        ours. When the transaction shows another version of a project's catalog, it writes nothing
        and returns that: project, version, and the one that was remembered."""
        # A stale catalog is found before anything is written, because a caller's transaction cannot
        # be rolled back from here.
        for project, known in versions.items():
            version = await connection.fetchval(self._connections.sql("catalog_version"), project)
            if version != known:
                return project, version or 0, known
        await self._check_lanes(connection, {lane.number for lane in lanes_of(targets, accepted)})
        first = {jobs[index][2]: index for index in reversed(accepted)}
        remaining = await self._without_known(connection, jobs, list(first.values())[::-1], answers)
        remaining = await self._take_keys(connection, IDEMPOTENT, jobs, remaining, answers)
        remaining = await self._take_keys(connection, UNIQUE, jobs, remaining, answers)
        if remaining:
            await self._store_facts(connection, jobs, targets, remaining, answers)
        _settle(jobs, accepted, first, answers)
        return None

    async def _check_lanes(self, connection: Any, numbers: set[int]) -> None:
        """A lane that was made after the caller's snapshot is not to be seen in it."""
        rows = await connection.fetch(self._connections.sql("lanes"), list(numbers))
        if len(rows) < len(numbers):
            raise Conflict(
                "this transaction does not show a job type, priority or requirement that was new "
                "after its snapshot was taken. Insert in a new transaction, or use READ COMMITTED "
                "instead of REPEATABLE READ or SERIALIZABLE"
            )

    async def _store_facts(
        self,
        connection: Any,
        jobs: list[Wanted],
        targets: list[Target],
        remaining: list[int],
        answers: list[Answer],
    ) -> None:
        rich = [jobs[index][1] for index in remaining]
        ids, fences, budgets, payloads = columns_of(jobs, targets, remaining)
        rows = await connection.fetch(
            self._connections.sql("insert"),
            ids,
            fences,
            [lane.number for lane in lanes_of(targets, remaining)],
            budgets,
            payloads,
            self._connections.bound_now(),
            [codec.instant(job.at) for job in rich],
            [codec.seconds(job.at) for job in rich],
            [codec.instant(job.deadline) for job in rich],
            [codec.seconds(job.deadline) for job in rich],
            [codec.instant(job.expires) for job in rich],
            [codec.seconds(job.expires) for job in rich],
            [codec.array_literal(job.tags) for job in rich],
            [extras_text(job) for job in rich],
            *([getattr(job, name) for job in rich] for name in KEPT_AS_IS),
            [key or None for key in keys_of(jobs, targets, remaining)],
        )
        fresh = {row["job"] for row in rows}
        for index in remaining:
            identifier = jobs[index][2]
            answers[index] = Inserted(identifier, identifier not in fresh)

    async def _without_known(
        self, connection: Any, jobs: list[Wanted], indexes: list[int], answers: list[Answer]
    ) -> list[int]:
        """Answer for jobs that are stored already, before they take keys a second time."""
        rows = await connection.fetch(
            self._connections.sql("known_ids"), [jobs[index][2] for index in indexes]
        )
        known = {row["id"] for row in rows}
        for index in indexes:
            if jobs[index][2] in known:
                answers[index] = Inserted(jobs[index][2], existed=True)
        return [index for index in indexes if jobs[index][2] not in known]

    async def answer_known(
        self, within: Any | None, jobs: list[Wanted], answers: list[Any], *, again: bool
    ) -> None:
        """Whoever asks again for what was stored before gets that as the answer, whatever the queue
        says to new jobs by now."""
        refused = [index for index, answer in enumerate(answers) if answer is not None]
        given = [index for index in refused if again or jobs[index][1].id is not None]
        keyed = [index for index in refused if jobs[index][1].idempotency_key is not None]
        if not given and not keyed:
            return
        async with (
            self._connections.connection() if within is None else nullcontext(within) as connection
        ):
            for project in {jobs[index][0] for index in keyed}:
                mine = [
                    jobs[index][1].idempotency_key for index in keyed if jobs[index][0] == project
                ]
                rows = await connection.fetch(
                    self._connections.sql("key_holders"),
                    project,
                    mine,
                    self._connections.bound_now(),
                )
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
        """Take the keys of one scope and answer for the jobs whose key is held; returns the
        others."""
        wanted: dict[tuple[int, str], int] = {}
        for index in indexes:
            project, job, _ = jobs[index]
            key = job.idempotency_key if scope == IDEMPOTENT else job.unique_key
            if key is not None:
                wanted.setdefault((project, key), index)  # the first of equal keys wins
        holders: dict[tuple[int, str], tuple[UUID, bytes | None]] = {}
        for project in {project for project, _ in wanted}:
            mine = [
                (key, jobs[index]) for (owner, key), index in wanted.items() if owner == project
            ]
            rows = await connection.fetch(
                self._connections.sql("take_keys"),
                project,
                [scope] * len(mine),
                [key for key, _ in mine],
                [identifier for _, (_, _, identifier) in mine],
                [job.body_hash() if scope == IDEMPOTENT else None for _, (_, job, _) in mine],
                [
                    job.idempotency_seconds if scope == IDEMPOTENT else None
                    for _, (_, job, _) in mine
                ],
                self._connections.bound_now(),
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
                # The idempotency key was taken for a job that will not exist: it stands for the
                # holder instead.
                await connection.execute(
                    self._connections.sql("hand_over_key"), project, job.idempotency_key, holder
                )
        return free


def keys_of(jobs: list[Wanted], targets: list[Target], indexes: list[int]) -> list[int]:
    """What stands for their fairness keys, where keys take turns."""
    keys = []
    for index in indexes:
        target = targets[index]
        assert isinstance(target, tuple)
        keys.append(key_in(target[0].settings.fairness, jobs[index][1].fairness_key))
    return keys


def arrivals_of(jobs: list[Wanted], targets: list[Target], indexes: list[int]) -> set[Arrival]:
    """Where they came to; nobody knows at which turn."""
    keys = keys_of(jobs, targets, indexes)
    return {
        (lane.project, spot_of(lane.number, key), 0)
        for lane, key in zip(lanes_of(targets, indexes), keys, strict=True)
    }


def columns_of(jobs: list[Wanted], targets: list[Target], indexes: list[int]) -> list[list[Any]]:
    """Ids, fences, budgets and payloads."""
    ids, fences, budgets, payloads = [], [], [], []
    for index in indexes:
        _, job, identifier = jobs[index]
        target = targets[index]
        assert isinstance(target, tuple)
        ids.append(identifier)
        fences.append(codec.uuid(identifier.int | 1))
        budgets.append(job.max_attempts or target[0].settings.max_attempts)
        payloads.append(job.payload.decode())
    return [ids, fences, budgets, payloads]


def _settle(
    jobs: list[Wanted], accepted: list[int], first: dict[UUID, int], answers: list[Answer]
) -> None:
    """Of one id twice, the second gets the answer of the first; and no answer names a job that was
    itself turned away."""
    for index in accepted:
        answer = answers[first[jobs[index][2]]]
        if index != first[jobs[index][2]]:
            answers[index] = (
                Inserted(answer.job, existed=True) if isinstance(answer, Inserted) else answer
            )
    turned_away = {
        jobs[index][2]: answer
        for index in accepted
        if isinstance(answer := answers[index], Inserted)
    }
    for index in accepted:
        answer = answers[index]
        if isinstance(answer, Inserted) and answer.existed:
            answers[index] = msgspec.structs.replace(
                turned_away.get(answer.job, answer), existed=True
            )
