"""Carries out what operators ask of jobs: locate, ask the domain what the change means, move."""

import sqlite3
from collections.abc import Sequence
from typing import Any, assert_never
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.changes import (
    AskToStop,
    Changed,
    End,
    Erase,
    JobChange,
    Move,
    Place,
    Remove,
    Standing,
    brings_payload,
    check_change,
    check_payload_fits,
    note_on,
    plan,
)
from taskforge.domain.errors import Conflict, Gone, NotFound, TaskForgeError
from taskforge.domain.fairness import key_in
from taskforge.domain.ids import RAISED_BY_RESTORE, created_at, fence_of, is_first, uuid_from_bytes
from taskforge.domain.job import JobStatus, Refused
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import Bookkeeping, enter
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.endings import WaitingEnd, end
from taskforge.storage.sqlite.inserts import UNIQUE
from taskforge.storage.sqlite.transaction import Transaction


def change(
    transaction: Transaction,
    projects: Sequence[int],
    jobs: Sequence[UUID],
    wanted: JobChange,
    note: Note | None,
) -> list[Changed | Refused]:
    check_change(wanted)
    answers: dict[UUID, Changed | Refused] = {}
    changed: list[tuple[int, JobStatus, Changed]] = []
    for job in dict.fromkeys(jobs):
        try:
            changed.append(_change_one(transaction, projects, job, wanted))
            answers[job] = changed[-1][2]
        except TaskForgeError as error:
            answers[job] = Refused(error)
    entry = None if note is None else trail.jobs_changed(note, changed)
    if entry is not None:
        enter(transaction, [entry])
    return [answers[job] for job in jobs]


def _change_one(
    transaction: Transaction, projects: Sequence[int], job: UUID, wanted: JobChange
) -> tuple[int, JobStatus, Changed]:
    """The job's project, its status before, and the answer."""
    cursor = transaction.connection.cursor()
    cursor.row_factory = sqlite3.Row
    row: Any = cursor.execute(sql("locate"), (job.bytes,)).fetchone()
    if row is None or row["project"] not in projects:
        raise _missing(transaction, job)
    standing = Standing(
        job=job,
        status=codec.JOB_STATUSES[row["status"]],
        queue=row["queue_name"],
        priority=row["priority"],
        attempt=row["attempt"],
        max_attempts=row["budget"],
        crashes=row["crashes"],
        origin_queue=row["origin_name"],
        cancel_requested=bool(row["cancel_requested"]),
        payload_erased=bool(row["payload_erased"]),
    )
    move = plan(wanted, standing)
    status = _carry_out(transaction, row, standing, move)
    return row["project"], standing.status, Changed(job, status, note_on(wanted, standing, move))


def _missing(transaction: Transaction, job: UUID) -> TaskForgeError:
    horizon = transaction.execute(sql("pruned_before")).fetchone()[0]
    if horizon is not None and codec.micros(created_at(job)) < horizon:
        return Gone(job)
    return NotFound("job", str(job))


def _carry_out(
    transaction: Transaction, row: Any, standing: Standing, move: Move
) -> JobStatus | None:
    match move:
        case End(status, reason, error):
            end(
                transaction,
                [WaitingEnd(row["fence"], codec.JOB_CODE[status], reason, error)],
            )
            return status
        case AskToStop(reason):
            transaction.execute(sql("ask_to_stop"), (reason, row["fence"]))
            return JobStatus.PROCESSING
        case Place():
            return _place(transaction, row, standing, move)
        case Erase():
            transaction.execute(
                sql("erase"),
                (row["id"], transaction.now),
            )
            return standing.status
        case Remove():
            books = Bookkeeping(transaction)
            books.removed(row["queue"], row["status"])
            books.write()
            remove(transaction, row["queue"], [row["id"]])
            return None
        case _:
            assert_never(move)


def _place(transaction: Transaction, row: Any, standing: Standing, move: Place) -> JobStatus:
    """Everything that can refuse the move comes before the first write: a refusal must leave no
    trace."""
    queue = transaction.catalog_cache.queue_named(row["project"], move.queue)
    if brings_payload(move, standing):
        size = (
            transaction.execute(sql("payload_bytes"), (row["id"],)).fetchone()[0] or 0
            if move.payload is None
            else len(move.payload)
        )
        check_payload_fits(move, queue, size)
    keyed = row["keyed"]
    if standing.status.is_final and row["unique_key"] is not None:
        _take_unique_key(transaction, row)
        keyed = 1
    key = (queue.number, row["job_type"], move.priority, row["requires"] or "")
    lane = transaction.catalog_cache.lane_for(row["project"], key).number
    fair = key_in(queue.settings.fairness, row["fairness_key"])
    if standing.status.is_final:
        fence = _leave_finished(transaction, row)
    else:
        fence = row["fence"]
        leave = sql("lose_ready") if row["due"] is None else sql("lose_waiting")
        transaction.execute(leave, (fence,))
    now = transaction.now
    deadline, expires = _rewrite(transaction, row, standing, move, queue.number)
    # A start-by time counts until the first start.
    until = codec.earlier(deadline, expires) if is_first(uuid_from_bytes(fence)) else deadline
    due: int | None = codec.at(move.at, now)
    turn: int = now
    waits = due is not None and due > now
    if move.at is None and not standing.status.is_final and row["parked"] is None:
        # Where it stood, even if its time has come by now: staging moves it, in the order of times.
        due, turn = row["due"], row["turn"]
        waits = due is not None
    budget = row["max_attempts"] if move.max_attempts is None else move.max_attempts
    if waits:
        values = (
            fence,
            row["project"],
            lane,
            move.attempt,
            budget,
            move.crashes,
            keyed,
            due,
            until,
            None,
            fair,
            None,
        )
        transaction.execute(sql("add_waiting"), values)
        return JobStatus.SCHEDULED
    transaction.execute(
        sql("put_ready"),
        (
            lane,
            turn,
            fence,
            row["project"],
            move.attempt,
            budget,
            move.crashes,
            keyed,
            until,
            None,
            None,
            fair,
        ),
    )
    transaction.catalog_cache.tell(row["project"], lane, turn, fair)
    transaction.wakes = True
    return JobStatus.PENDING


def _rewrite(
    transaction: Transaction, row: Any, standing: Standing, move: Place, queue: int
) -> tuple[int | None, int | None]:
    """Bring the facts up to date and return the deadline and the expiry that hold now."""
    deadline, expires, now = row["deadline"], row["expires_at"], transaction.now
    if standing.status.is_final:
        deadline, expires = (
            None if time is not None and time <= now else time for time in (deadline, expires)
        )
    origin = None if move.clear_origin else row["origin_queue"]
    buried = (None, None) if move.clear_origin else (row["buried_reason"], row["buried_error"])
    after = (queue, move.priority, origin, deadline, expires, *buried)
    before = tuple(row[name] for name in _REWRITTEN)
    # Most retries change none of them, and a row that is written anew is a page that is written
    # anew. When they were made tells the job's turn; of an edit only the facts do.
    if after != before or not standing.status.is_final:
        transaction.execute(sql("rewrite"), (*after, move.payload, now, row["id"]))
    return deadline, expires


_REWRITTEN = (
    "queue",
    "priority",
    "origin_queue",
    "deadline",
    "expires_at",
    "buried_reason",
    "buried_error",
)


def _take_unique_key(transaction: Transaction, row: Any) -> None:
    key = row["unique_key"]
    arguments = (codec.json([key]), row["project"], UNIQUE, transaction.now)
    held = transaction.execute(sql("key_holders"), arguments).fetchone()
    if held is not None:
        job, holder = uuid_from_bytes(row["id"]), uuid_from_bytes(held[1])
        raise Conflict(
            f"job {job} cannot run again: its unique key {key!r} is now held by job {holder}"
        )
    transaction.execute(sql("take_keys"), (row["project"], UNIQUE, key, row["id"], None, None))


def _leave_finished(transaction: Transaction, row: Any) -> bytes:
    """Copy the last execution to history and return the fence of the next claim."""
    identifier, at = row["id"], (row["queue"], row["id"])
    transaction.execute(sql("keep_last_execution"), at)
    last: int = transaction.execute(sql("last_epoch"), (identifier, RAISED_BY_RESTORE)).fetchone()[
        0
    ]
    transaction.execute(sql("leave_finished"), at)
    books = Bookkeeping(transaction)
    books.removed(row["queue"], row["status"])
    books.write()
    return fence_of(uuid_from_bytes(identifier), last + 1).bytes


def remove(
    transaction: Transaction, queue: int, jobs: Sequence[bytes], *, keys_until: int | None = None
) -> None:
    """All rows of finished jobs of one queue go, but idempotency keys promised for longer than
    `keys_until`, if that is given."""
    arguments = (b"".join(jobs), codec.positions(len(jobs)))
    transaction.execute(sql("remove_finished"), (*arguments, queue))
    # Row values in an IN list use only part of a key, and walk all tags of the project: one by one,
    # then.
    transaction.executemany(
        sql("remove_tag"), transaction.execute(sql("tags_of"), arguments).fetchall()
    )
    transaction.execute(sql("remove_keys"), (*arguments, keys_until))
    for name in ("remove_executions", "remove_logs", "remove_jobs"):
        transaction.execute(sql(name), arguments)
