"""Ends claims: every write here is about a job whose fence is in `running`, and says so when it is
not."""

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from taskforge.domain.errors import NotFound
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.job import ErrorInfo, JobStatus
from taskforge.domain.outcome import (
    Finish,
    Lost,
    ToCancelled,
    ToDeadLetter,
    ToFailed,
    ToHandBack,
    ToMisfit,
    ToRetry,
    ToSkipped,
    ToSnoozed,
    ToSucceeded,
    Transition,
)
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Lane
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import Bookkeeping, Run
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.circuits import hear_endings
from taskforge.storage.sqlite.codec import SECOND, Row, span
from taskforge.storage.sqlite.skippers import add_misfit, add_skipper
from taskforge.storage.sqlite.transaction import Transaction

_numbers = msgspec.json.Decoder(list[tuple[int, int, int, int, int | None, int, int]]).decode
_SUCCEEDED, _FAILED, _CANCELLED = (
    codec.JOB_CODE[status]
    for status in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)
)
_ENDED = {ToSucceeded: _SUCCEEDED, ToFailed: _FAILED, ToCancelled: _CANCELLED}
_RETRIED = codec.EXECUTION_CODE[ExecutionStatus.RETRY_SCHEDULED]
_RELEASED = codec.EXECUTION_CODE[ExecutionStatus.CANCELLED]
_BURIED = codec.EXECUTION_CODE[ExecutionStatus.DEAD_LETTER]


def finish_claims(
    transaction: Transaction, finishes: Sequence[Finish], *, lapsed: bool
) -> list[Lost]:
    return FinishBatch(transaction).finish(finishes, lapsed=lapsed)


class AlikeEnds:
    """Executions of one queue and epoch that ended alike. Bare successes take this way: one
    statement writes them all."""

    __slots__ = ("began", "fences", "results")

    def __init__(self) -> None:
        self.fences: list[bytes] = []
        self.began: list[int] = []  # 0: never
        self.results: list[str | None] = []


class FinishBatch:
    """One batch of transitions."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._now = transaction.now
        self._cache = transaction.catalog_cache
        self._lanes: dict[int, Lane] = {}  # that this batch has met
        self._books = Bookkeeping(transaction)
        # by queue, and by epoch as it is in the fence
        self._succeeded: dict[tuple[int, bytes], AlikeEnds] = {}
        self._unlucky: list[tuple[Any, ...]] = []
        self._unlucky_fences: list[bytes] = []
        self._failures: list[bytes] = []  # the groups of those that failed
        self._released: list[bytes] = []  # jobs whose unique keys are free again
        self._moved: list[bytes] = []
        self._executions: list[Row] = []
        self._runs: list[Run] = []
        self._waiting: list[Row] = []
        self._ready: list[Row] = []

    def finish(self, finishes: Sequence[Finish], *, lapsed: bool) -> list[Lost]:
        wanted: dict[bytes, Finish] = {}
        for one in finishes:
            wanted.setdefault(one.fence.bytes, one)  # a fence given twice counts once
        # In the order of their keys: neighbours in `running` and `finished` are then touched
        # together.
        fences = sorted(wanted)
        arguments = (b"".join(fences), codec.positions(len(fences)))
        numbers, workers = self._transaction.execute(sql("claims_held"), arguments).fetchone()
        held = zip(_numbers(numbers), codec.apart(workers), strict=True)
        rows: list[Row] = [
            (fences[place], lane, worker, *rest) for (place, lane, *rest), worker in held
        ]
        if lapsed:
            moment = (self._now, self._transaction.steady)
            over = {
                row[0]
                for row in self._transaction.execute(sql("claims_lapsed"), (*arguments, *moment))
            }
            rows = [row for row in rows if row[0] in over]
        living: dict[bytes, Finish] = {}
        refused: list[Lost] = []
        for row in rows:
            one = wanted.pop(row[0])
            kind = type(one.transition)
            if kind is ToMisfit:
                one = self._settled(one, one.transition)  # type: ignore[arg-type]
                kind = type(one.transition)
            if kind is ToSucceeded and one.transition.reason is None:  # type: ignore[union-attr]
                self._succeed(row, one.transition.result, self._ran(one, row, _SUCCEEDED))  # type: ignore[union-attr]
            elif kind in (ToSucceeded, ToFailed, ToCancelled):
                self._end(one, row, one.transition)
            elif row[6]:
                refused.append(Lost(one.fence, cancel_requested=True))
            else:
                living[row[0]] = one
        if living:
            self._live_on(living, rows)
        self._write()
        return [Lost(one.fence) for one in wanted.values()] + refused

    def _settled(self, one: Finish, misfit: ToMisfit) -> Finish:
        """If its arguments have fitted no handler for long enough, it ends as any failure does."""
        row = self._transaction.execute(sql("misfit_at"), (one.fence.bytes,)).fetchone()
        waited = None if row is None or row[0] is None else (self._now - row[0]) / SECOND
        return msgspec.structs.replace(one, transition=misfit.after(waited))

    # --- Endings ---

    def _succeed(self, row: Row, result: bytes | None, began: int | None) -> None:
        fence = row[0]
        lane = self._lanes.get(row[1]) or self._meet(row[1])
        key = (lane.queue, fence[13:])
        alike = self._succeeded.get(key)
        if alike is None:
            alike = self._succeeded[key] = AlikeEnds()
        alike.fences.append(fence)
        alike.began.append(began or 0)
        alike.results.append(None if result is None else result.decode())
        if row[7]:
            self._released.append(codec.job_bytes(fence))

    def _meet(self, number: int) -> Lane:
        lane = self._lanes[number] = self._cache.lane(number)
        return lane

    def _end(self, one: Finish, row: Row, transition: Transition) -> None:
        fence, queue = row[0], self._meet(row[1]).queue
        place = None
        assert isinstance(transition, ToSucceeded | ToFailed | ToCancelled)
        status, reason = _ENDED[type(transition)], transition.reason
        error = codec.error_text(transition.error) if type(transition) is ToFailed else None
        if type(transition) is ToFailed:
            place = len(self._failures)
            self._failures.append(self._failed(fence, row[1], transition.error))
        # An ended execution and the job it ends have the same code.
        began = self._ran(one, row, status)
        self._unlucky.append((queue, status, codec.epoch(fence), began, error, reason, place))
        self._unlucky_fences.append(fence)
        self._books.ended(queue, status, codec.job_bytes(fence))
        if row[7]:
            self._released.append(codec.job_bytes(fence))

    def _failed(self, fence: bytes, lane: int, error: ErrorInfo) -> bytes:
        """Count the failure in its group, and return which that is."""
        of = self._meet(lane)
        return self._books.failed(of.project, of.queue, of.job_type, error, fence)

    def _ran(self, one: Finish, row: Row, status: int) -> int | None:
        """Count the execution, and return when it began."""
        ran, claimed_at = one.ran, row[4]
        began: int | None = row[5]
        if ran is None:
            duration = (self._now - (claimed_at if began is None else began)) / 1_000
        else:
            began = self._now - int(ran * 1_000_000)
            duration = ran * 1_000
        waited = (claimed_at - row[3]) / 1_000
        self._runs.append((row[1], row[2], status, duration, waited, claimed_at))
        return began

    def _write(self) -> None:
        execute = self._transaction.execute
        fences, written = self._unlucky_fences, 0
        if self._unlucky:
            groups = b"".join(self._failures)
            unlucky = (b"".join(fences), codec.json(self._unlucky), self._now, groups)
            written = execute(sql("end"), unlucky).rowcount
        for (queue, epoch), alike in self._succeeded.items():
            jobs = b"".join([fence[:13] + b"\0\0\0" for fence in alike.fences])
            began = ("%016d" * len(alike.began) % tuple(alike.began)).encode()
            numbers = self._now, queue, _SUCCEEDED, int.from_bytes(epoch)
            written += execute(
                sql("end_alike"),
                (b"".join(alike.fences), codec.json(alike.results), jobs, *numbers, began),
            ).rowcount
            self._books.ended(queue, _SUCCEEDED, jobs)
            fences = fences + alike.fences
        if fences:
            gone = execute(
                sql("leave_running"), (b"".join(fences), codec.positions(len(fences)))
            ).rowcount
            if not len(fences) == written == gone:
                raise AssertionError(
                    f"{len(fences)} claims ended, {written} written to history, {gone} removed"
                )
        if self._released:
            execute(
                sql("free_keys"), (b"".join(self._released), codec.positions(len(self._released)))
            )
        self._books.ran(self._runs)
        self._books.write()
        # Room in a limited queue: its next job may be claimable now.
        self._transaction.wakes |= hear_endings(self._transaction, self._runs)

    # --- Jobs that live on ---

    def _live_on(self, living: dict[bytes, Finish], held: list[Row]) -> None:
        arguments = (b"".join(living), codec.positions(len(living)))
        numbers = {
            row[0]: row[1:] for row in self._transaction.execute(sql("claims_in_full"), arguments)
        }
        for row in held:
            one = living.get(row[0])
            if one is not None:
                self._live_on_one(one, row, numbers[row[0]])
        execute, executemany = self._transaction.execute, self._transaction.executemany
        execute(sql("leave_running"), (b"".join(self._moved), codec.positions(len(self._moved))))
        executemany(sql("add_execution"), self._executions)
        executemany(sql("add_waiting"), self._waiting)
        executemany(sql("put_ready"), self._ready)
        for lane, turn, _, project, *_, key in self._ready:
            self._cache.tell(project, lane, turn, key)
        self._transaction.wakes |= bool(self._ready)

    def _live_on_one(self, one: Finish, row: Row, numbers: Row) -> None:
        fence, lane, worker, turn, claimed_at, _, _, keyed = row
        project, attempt, max_attempts, crashes, deadline, skipped, misfit_at, key = numbers
        status, delay, spent, error, reason, misfit = (
            _RELEASED,
            None,
            attempt - 1,
            None,
            None,
            False,
        )
        keeps_turn = self._runs_in_order(lane, key)
        match one.transition:
            case ToRetry(wait, info, crashed, misfit):
                status, delay, spent, error = _RETRIED, wait, attempt, codec.error_text(info)
                crashes += crashed
                self._failed(fence, lane, info)
                self._books.retried(self._meet(lane).queue, codec.job_bytes(fence))
                skipped = None if misfit else skipped
            case ToSnoozed(wait, why):
                delay, reason = wait, why
            case ToHandBack(why):
                reason = why
            case ToSkipped(why):
                reason = why
                skipped = add_skipper(self._transaction, skipped, worker)
            case ToMisfit() as unfit:
                reason, misfit_at = unfit.reason, misfit_at or self._now
                skipped = add_misfit(self._transaction, skipped, worker)
            case ToDeadLetter(target, info, why):
                grave = self._grave(project, target)
                if grave is None:
                    # What would have gone there has failed for good.
                    self._end(one, row, ToFailed(info, f"{why}; its dead letter queue is gone"))
                    return
                status, delay, error, reason = _BURIED, 0.0, codec.error_text(info), why
                group = self._failed(fence, lane, info)
                lane = self._bury(fence, lane, grave, why, error, group, keyed=keyed)
                spent, max_attempts, crashes, keyed = 0, grave.settings.max_attempts, 0, 0
                deadline = skipped = misfit_at = None
                key, keeps_turn = NO_KEY if grave.settings.fairness is None else key, False
            case ToSucceeded() | ToFailed() | ToCancelled():
                raise AssertionError(one.transition)
            case _:
                assert_never(one.transition)
        self._moved.append(fence)
        job, epoch, following, began = (
            codec.job_bytes(fence),
            codec.epoch(fence),
            codec.next_fence(fence),
            self._ran(one, row, status),
        )
        ended = (worker, claimed_at, began, self._now, reason, error)
        self._executions.append((job, epoch, project, attempt, status, *ended))
        budget = (spent, max_attempts, crashes)
        # After the first start only the deadline counts as the time to start by.
        if delay is not None and delay > 0:
            due = self._now + span(delay)
            since = misfit_at if misfit else None
            kept = turn if keeps_turn else None
            self._waiting.append(
                (following, project, lane, *budget, keyed, due, deadline, since, key, kept)
            )
        else:
            stands = turn if delay is None or keeps_turn else self._now + len(self._ready)
            place = (lane, stands, following, project, *budget, keyed)
            self._ready.append((*place, deadline, skipped, misfit_at, key))

    def _runs_in_order(self, lane: int, key: int) -> bool:
        """Where the jobs of a key run one after the other, one that is tried again keeps its
        turn."""
        if key == NO_KEY:
            return False
        fairness = self._cache.queue_in(self._meet(lane)).settings.fairness
        return fairness is not None and fairness.is_serial

    def _grave(self, project: int, target: Any) -> Queue | None:
        try:
            return self._cache.queue_with_id(project, target)
        except NotFound:
            return None

    def _bury(
        self,
        fence: bytes,
        number: int,
        grave: Queue,
        reason: str,
        error: str | None,
        group: bytes,
        *,
        keyed: int,
    ) -> int:
        """Change the facts of a dead letter and return its lane."""
        lane = self._meet(number)
        job = codec.job_bytes(fence)
        self._transaction.execute(sql("bury"), (grave.number, job, reason, error, group))
        if keyed:
            self._released.append(job)
        key = (grave.number, lane.job_type, lane.priority, lane.requires)
        return self._cache.lane_for(lane.project, key).number
