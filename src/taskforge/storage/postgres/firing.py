"""Fires slots: the job, what the slot did and the schedule's next slot in one transaction, under
the leader's term."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from taskforge.domain.changes import CancelJob
from taskforge.domain.firing import REPLACED, Fired, Firing, slot_events
from taskforge.domain.job import NewJob, Refused
from taskforge.domain.schedule import SlotOutcome
from taskforge.domain.term import Deposed
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.inserts import PostgresInserts
from taskforge.storage.postgres.job_changes import PostgresJobChanges
from taskforge.storage.postgres.signals import Arrival, Signals

Written = tuple[Firing, datetime, SlotOutcome, str | None, NewJob | None]


class PostgresFiring:
    def __init__(
        self,
        connections: PostgresConnections,
        inserts: PostgresInserts,
        job_changes: PostgresJobChanges,
        signals: Signals,
    ) -> None:
        self._connections = connections
        self._inserts = inserts
        self._job_changes = job_changes
        self._signals = signals

    async def fire(self, firings: Sequence[Firing], term: int | None) -> list[Fired]:
        told: set[Arrival] = set()

        async def once() -> list[Fired]:
            told.clear()
            async with self._connections.transaction() as connection:
                return await self._fire(connection, firings, term, told)

        fired = await self._connections.until_undisturbed(once)
        if any(one.jobs for one in fired):
            self._signals.send(list(told))
        return fired

    async def _fire(
        self,
        connection: Connection,
        firings: Sequence[Firing],
        term: int | None,
        told: set[Arrival],
    ) -> list[Fired]:
        if term is not None and not await connection.fetch(
            self._connections.sql("hold_term"), term
        ):
            raise Deposed(term)
        standing = await self._advance(connection, firings)
        written = await self._add_slots(connection, standing, term)
        refused = await self._insert_jobs(connection, written, told)
        replaced = {one.cancels: one.project for one in standing if one.cancels is not None}
        if replaced:
            await self._job_changes.change_within(
                connection,
                list(set(replaced.values())),
                dict.fromkeys(replaced),
                CancelJob(REPLACED),
            )
        await self._announce(connection, written, refused)
        stood = {one.schedule for one in standing}
        jobs = dict.fromkeys(stood, 0)
        for firing, at, _, _, job in written:
            jobs[firing.schedule] += job is not None and (firing.schedule, at) not in refused
        return [
            Fired(one.schedule, one.schedule in stood, jobs.get(one.schedule, 0)) for one in firings
        ]

    async def _advance(self, connection: Connection, firings: Sequence[Firing]) -> list[Firing]:
        """Those that still stood as they were read."""
        rows = await connection.fetch(
            self._connections.sql("advance_schedules"),
            [one.schedule for one in firings],
            [one.version for one in firings],
            [one.expected_next for one in firings],
            [one.plan.next_at for one in firings],
            [one.plan.due_at for one in firings],
            [one.last_slot for one in firings],
            [one.last_job for one in firings],
            [one.manual for one in firings],
        )
        moved = {row["number"] for row in rows}
        return [one for one in firings if one.schedule in moved]

    async def _add_slots(
        self, connection: Connection, firings: Sequence[Firing], term: int | None
    ) -> list[Written]:
        """Those that no slot of the same time was written for before."""
        slots: list[Written] = [
            (firing, slot.at, slot.outcome, slot.detail, job)
            for firing in firings
            for slot, job in firing.written()
        ]
        if not slots:
            return []
        rows = await connection.fetch(
            self._connections.sql("add_slots"),
            [firing.schedule for firing, *_ in slots],
            [at for _, at, *_ in slots],
            [firing.project for firing, *_ in slots],
            [str(outcome) for _, _, outcome, _, _ in slots],
            [None if job is None else job.id for *_, job in slots],
            [detail for _, _, _, detail, _ in slots],
            [firing.manual for firing, *_ in slots],
            term,
            self._connections.bound_now(),
        )
        fresh = {(row["schedule"], row["at"]) for row in rows}
        return [slot for slot in slots if (slot[0].schedule, slot[1]) in fresh]

    async def _insert_jobs(
        self, connection: Connection, written: list[Written], told: set[Arrival]
    ) -> set[tuple[int, datetime]]:
        """The slots whose job was not taken."""
        made = [(slot, job) for slot in written if (job := slot[4]) is not None]
        if not made:
            return set()
        answers = await self._inserts.insert_wanted_within(
            connection, [(slot[0].project, job) for slot, job in made], told
        )
        refused: list[tuple[int, datetime, str]] = [
            (slot[0].schedule, slot[1], str(answer.error))
            for (slot, _), answer in zip(made, answers, strict=True)
            if isinstance(answer, Refused)
        ]
        if refused:
            columns: list[list[Any]] = [list(column) for column in zip(*refused, strict=True)]
            await connection.execute(self._connections.sql("refuse_slots"), *columns)
        return {(schedule, at) for schedule, at, _ in refused}

    async def _announce(
        self, connection: Connection, written: list[Written], refused: set[tuple[int, datetime]]
    ) -> None:
        now = self._connections.bound_now()
        told: list[tuple[Firing, SlotOutcome, UUID | None]] = [
            (firing, SlotOutcome.REFUSED, None)
            if (firing.schedule, at) in refused
            else (firing, outcome, None if job is None else job.id)
            for firing, at, outcome, _, job in written
        ]
        rows = [
            (event.project, event.topic, list(event.jobs), event.details, now)
            for event in slot_events(told)
        ]
        if rows:
            await connection.executemany(self._connections.sql("announce_slots"), rows)
