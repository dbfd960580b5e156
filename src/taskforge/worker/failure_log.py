"""What the worker's log says of attempts that failed: a line for each while they are few, and one a
second for the rest of many."""

import contextlib
import logging
import time
from typing import assert_never

from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import (
    Crashed,
    DeadlinePassed,
    FailForGood,
    Failure,
    MisfitOutcome,
    Outcome,
    RetryAfter,
    TimedOut,
)
from taskforge.telemetry.logs import FIELDS
from taskforge.worker.log_fields import fields_of

logger = logging.getLogger("taskforge.worker")
MOST_A_SECOND = 20
MOST_CHARACTERS = 300
Failed = Failure | MisfitOutcome | FailForGood | RetryAfter | TimedOut | Crashed | DeadlinePassed


class FailureLog:
    def __init__(self) -> None:
        self._since = float("-inf")
        self._told = 0
        self._untold = 0

    def tell(self, job: Claimed, outcome: Outcome) -> None:
        """For whoever looks at the worker; the traceback is in the execution."""
        if not isinstance(outcome, Failed):
            return
        self.look()
        if self._told >= MOST_A_SECOND:
            self._untold += 1
            return
        self._told += 1
        if isinstance(outcome, MisfitOutcome):
            words = "%s left to other workers: %s (taskforge jobs explain %s)"
            _warn(job, words, job.job_type, _in_short(outcome), job_of(job.fence))
            return
        words = "%s failed, attempt %d of %d: %s (taskforge jobs show %s)"
        _warn(
            job,
            words,
            job.job_type,
            job.attempt,
            job.max_attempts,
            _in_short(outcome),
            job_of(job.fence),
        )

    def look(self) -> None:
        """A few times a second: once one is over, what it left untold is told."""
        now = time.monotonic()
        if now - self._since < 1.0:
            return
        untold, self._untold, self._told, self._since = self._untold, 0, 0, now
        if untold:
            _warn(None, "%d more attempts failed within a second (taskforge jobs list)", untold)


def _warn(job: Claimed | None, words: str, *values: object) -> None:
    with contextlib.suppress(Exception):  # the app's own logging must not end a slot
        logger.warning(words, *values, extra={} if job is None else {FIELDS: fields_of(job)})


def _in_short(outcome: Failed) -> str:
    match outcome:
        case Failure(error) | FailForGood(error) | RetryAfter(_, error) | MisfitOutcome(error):
            return " ".join(f"{error.type}: {error.message}"[:MOST_CHARACTERS].split())
        case TimedOut(seconds):
            return f"it ran longer than its timeout of {seconds:g} s"
        case Crashed(worker):
            return f"{worker} died under it"
        case DeadlinePassed():
            return "its deadline passed"
        case _:
            assert_never(outcome)
