"""Fires slots: the job, what the slot did and the schedule's next slot in one transaction, under
the leader's term."""

from collections.abc import Sequence
from datetime import datetime

from taskforge.domain.changes import CancelJob
from taskforge.domain.firing import REPLACED, Fired, Firing, PlannedSlot, slot_events
from taskforge.domain.job import NewJob, Refused
from taskforge.domain.schedule import SlotOutcome
from taskforge.domain.term import Deposed
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import micros
from taskforge.storage.sqlite.inserts import InsertBatch
from taskforge.storage.sqlite.job_changes import change
from taskforge.storage.sqlite.transaction import Transaction

Written = tuple[Firing, PlannedSlot, NewJob | None]


def fire(transaction: Transaction, firings: Sequence[Firing], term: int | None) -> list[Fired]:
    if term is not None and not transaction.execute(sql("hold_term"), (term,)).fetchall():
        raise Deposed(term)
    standing = [one for one in firings if _advance(transaction, one)]
    written = [
        (firing, slot, job)
        for firing in standing
        for slot, job in firing.written()
        if _add_slot(transaction, firing, slot, job, term)
    ]
    refused = _insert_jobs(transaction, written)
    for firing in standing:
        if firing.cancels is not None:
            change(transaction, [firing.project], [firing.cancels], CancelJob(REPLACED), None)
    _announce(transaction, written, refused)
    jobs = {one.schedule: 0 for one in standing}
    for firing, slot, job in written:
        jobs[firing.schedule] += job is not None and (firing.schedule, slot.at) not in refused
    return [Fired(one.schedule, one.schedule in jobs, jobs.get(one.schedule, 0)) for one in firings]


def _advance(transaction: Transaction, firing: Firing) -> bool:
    moments = (firing.expected_next, firing.plan.next_at, firing.plan.due_at, firing.last_slot)
    last = firing.last_job
    values = (
        firing.schedule,
        firing.version,
        *(None if moment is None else micros(moment) for moment in moments),
        None if last is None else last.bytes,
        firing.manual,
    )
    return transaction.execute(sql("advance_schedule"), values).rowcount > 0


def _add_slot(
    transaction: Transaction,
    firing: Firing,
    slot: PlannedSlot,
    job: NewJob | None,
    term: int | None,
) -> bool:
    values = (
        firing.schedule,
        micros(slot.at),
        firing.project,
        transaction.now,
        str(slot.outcome),
        None if job is None or job.id is None else job.id.bytes,
        slot.detail,
        firing.manual,
        term,
    )
    return transaction.execute(sql("add_slot"), values).rowcount > 0


def _insert_jobs(transaction: Transaction, written: list[Written]) -> set[tuple[int, datetime]]:
    """The slots whose job was not taken."""
    projects: dict[int, list[tuple[Firing, PlannedSlot, NewJob]]] = {}
    for firing, slot, job in written:
        if job is not None:
            projects.setdefault(firing.project, []).append((firing, slot, job))
    refused = set()
    for project, made in projects.items():
        answers = InsertBatch(transaction, project).insert([job for _, _, job in made])
        for (firing, slot, _), answer in zip(made, answers, strict=True):
            if isinstance(answer, Refused):
                refused.add((firing.schedule, slot.at))
                values = (firing.schedule, micros(slot.at), str(answer.error))
                transaction.execute(sql("refuse_slot"), values)
    return refused


def _announce(
    transaction: Transaction, written: list[Written], refused: set[tuple[int, datetime]]
) -> None:
    told = [
        (firing, SlotOutcome.REFUSED, None)
        if (firing.schedule, slot.at) in refused
        else (firing, slot.outcome, None if job is None else job.id)
        for firing, slot, job in written
    ]
    transaction.executemany(
        sql("announce_slots"),
        [
            (
                event.project,
                event.topic,
                b"".join(job.bytes for job in event.jobs),
                event.details,
                transaction.now,
            )
            for event in slot_events(told)
        ],
    )
