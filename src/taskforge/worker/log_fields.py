"""What a line of the log tells of the job and the worker that it is about."""

from collections.abc import Mapping

from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed
from taskforge.telemetry.tracing import trace_ids
from taskforge.worker.context import current, current_worker


def fields_of(job: Claimed) -> dict[str, str]:
    """An execution has the id of its fence."""
    return {
        "job": str(job_of(job.fence)),
        "execution": str(job.fence),
        "queue": job.queue,
        "job_type": job.job_type,
    }


def log_fields() -> Mapping[str, str]:
    """Of whatever this code runs for; read when a line is written, so that a job pays nothing."""
    worker, running = current_worker.get(), current.get()
    told = {} if worker is None else {"worker": worker}
    if running is not None:
        told |= fields_of(running.claimed)
    return told | trace_ids()
