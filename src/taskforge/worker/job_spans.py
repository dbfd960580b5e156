"""A span for each attempt that a worker runs, where the process has traces."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from taskforge.domain import outcome as outcomes
from taskforge.domain.job import Claimed, ErrorInfo
from taskforge.domain.outcome import Outcome
from taskforge.ports.work_source import Completion
from taskforge.telemetry import tracing
from taskforge.worker.executor import Executor
from taskforge.worker.slots import Run

_NAMES: Mapping[type, str] = {
    outcomes.Success: "succeeded",
    outcomes.Failure: "failed",
    outcomes.FailForGood: "failed_for_good",
    outcomes.RetryAfter: "retry",
    outcomes.TimedOut: "timed_out",
    outcomes.HeartbeatMissed: "timed_out",
    outcomes.DeadlinePassed: "timed_out",
    outcomes.Crashed: "crashed",
    outcomes.CancelOutcome: "cancelled",
    outcomes.SnoozeFor: "snoozed",
    outcomes.SkipOutcome: "skipped",
    outcomes.MisfitOutcome: "misfit",
    outcomes.HandBackOutcome: "handed_back",
}


def trace_jobs(
    executor: Executor, name: str, identity: Callable[[], UUID | None] = lambda: None
) -> None:
    """Once, before the worker of that name runs. Where no traces are made nothing changes."""
    if tracing.tracer() is not None:
        spans = JobSpans(name, identity)
        executor.watch(spans.look)
        executor.surround(spans.around)


class JobSpans:
    def __init__(self, name: str, identity: Callable[[], UUID | None]) -> None:
        self._name = name
        self._identity = identity
        self._open: dict[UUID, tracing.ProcessSpan] = {}

    def around(self, run: Run) -> Run:
        async def run_in_span(job: Claimed, task: asyncio.Task[Any] | None) -> float:
            with tracing.ProcessSpan(job, self._about()) as span:
                self._open[job.fence] = span
                try:
                    return await run(job, task)
                finally:
                    self._open.pop(job.fence, None)

        return run_in_span

    def look(self, completion: Completion) -> None:
        """The span ends with its outcome, though the handler may go on in a thread."""
        span = self._open.pop(completion.job.fence, None)
        if span is not None:
            outcome = completion.outcome
            span.end(_NAMES.get(type(outcome), "ended"), _error_of(outcome))

    def _about(self) -> Mapping[str, str]:
        identity = self._identity()
        return tracing.worker_attributes(self._name, None if identity is None else str(identity))


def _error_of(outcome: Outcome) -> ErrorInfo | None:
    match outcome:
        case outcomes.Failure() | outcomes.FailForGood() | outcomes.RetryAfter():
            return outcome.error
        case outcomes.MisfitOutcome():
            return outcome.error
        case outcomes.TimedOut():
            return ErrorInfo("TimedOut", f"ran longer than {outcome.seconds:g} s")
        case outcomes.DeadlinePassed():
            return ErrorInfo("DeadlinePassed", "the job's deadline has passed")
        case outcomes.Crashed():
            return ErrorInfo("Crashed", f"the {outcome.worker} that ran it died")
        case _:
            return None
