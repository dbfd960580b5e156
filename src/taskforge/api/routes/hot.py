"""Enqueueing and the worker protocol, as the API's document has them. The front answers these
itself, without the framework."""

from typing import TYPE_CHECKING, Annotated, Any

from litestar import post
from litestar.params import FromPath, HeaderParameter, JSONBody

from taskforge.api.entry.enqueue import BulkAnswer, JobCreated
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import NewIn
from taskforge.api.schema.shapes import shape_to_document
from taskforge.domain import worker_protocol
from taskforge.domain.access import Permission
from taskforge.domain.job_request import NewJobBody

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="Sent again with the same body, the first job is the answer",
    ),
]


class Answered(AssertionError):
    """The front answers this; the framework must not be asked."""


@post("/jobs", permission=Permission.JOB_WRITE, tags=["Jobs"], responses=responses(404, 409, 413))
async def create_job(
    data: JSONBody[NewJobBody], idempotency_key: IdempotencyKey = None, project: NewIn = None
) -> JobCreated:
    """Enqueue one job. The answer comes when it is stored for good."""
    raise Answered


@post(
    "/projects/{project:str}/jobs",
    permission=Permission.JOB_WRITE,
    tags=["Jobs"],
    responses=responses(404, 409, 413),
)
async def create_job_in(
    project: FromPath[str], data: JSONBody[NewJobBody], idempotency_key: IdempotencyKey = None
) -> JobCreated:
    """Enqueue one job in a project named by the path."""
    raise Answered


@post(
    "/jobs/bulk",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409, 413),
)
async def create_jobs(
    data: JSONBody[list[NewJobBody]], idempotency_key: IdempotencyKey = None, project: NewIn = None
) -> BulkAnswer:
    """Enqueue up to 10,000 jobs or 8 MiB. Jobs that are refused do not hold up the others; `errors`
    says which and why."""
    raise Answered


@post(
    "/projects/{project:str}/jobs/bulk",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409, 413),
)
async def create_jobs_in(
    project: FromPath[str], data: JSONBody[list[NewJobBody]], idempotency_key: IdempotencyKey = None
) -> BulkAnswer:
    """The same in a project named by the path."""
    raise Answered


if TYPE_CHECKING:
    from taskforge.domain.worker_protocol import (
        BeatsBody,
        ClaimAnswer,
        ClaimBody,
        CompleteBody,
        CountBody,
        Deregister,
        Heartbeat,
        HeartbeatAnswer,
        LinesBody,
        LostAnswer,
        Register,
    )
else:
    Register, Heartbeat, ClaimBody = (
        shape_to_document(worker_protocol.Register),
        shape_to_document(worker_protocol.Heartbeat),
        shape_to_document(worker_protocol.ClaimBody),
    )
    CompleteBody, BeatsBody, LinesBody = (
        shape_to_document(worker_protocol.CompleteBody),
        shape_to_document(worker_protocol.BeatsBody),
        shape_to_document(worker_protocol.LinesBody),
    )
    Deregister, CountBody, ClaimAnswer = (
        shape_to_document(worker_protocol.Deregister),
        shape_to_document(worker_protocol.CountBody),
        shape_to_document(worker_protocol.ClaimAnswer),
    )
    LostAnswer, HeartbeatAnswer = (
        shape_to_document(worker_protocol.LostAnswer),
        shape_to_document(worker_protocol.HeartbeatAnswer),
    )
_RUN: dict[str, Any] = {
    "permission": Permission.WORKER_RUN,
    "tags": ["Worker protocol"],
    "responses": responses(404, 409),
}


@post("/worker/register", **_RUN | {"responses": responses(404, 409, 429)})
async def worker_register(
    data: JSONBody[Register], project: NewIn = None
) -> worker_protocol.WorkerRegistered:
    """Make a worker known. Its answer names the incarnation that goes into every later call."""
    raise Answered


@post("/worker/heartbeat", status_code=200, **_RUN)
async def worker_heartbeat(data: JSONBody[Heartbeat]) -> HeartbeatAnswer:
    """Renew the lease on everything that a worker runs. 409: it is over, register again."""
    raise Answered


@post("/worker/claim", status_code=200, **_RUN | {"responses": responses(404, 409, 429)})
async def worker_claim(data: JSONBody[ClaimBody]) -> ClaimAnswer:
    """Get jobs, waiting up to a minute for them."""
    raise Answered


@post("/worker/complete", status_code=200, **_RUN)
async def worker_complete(data: JSONBody[CompleteBody]) -> LostAnswer:
    """Report what came of executions; the server decides what follows. Those that were not the
    worker's any more come back."""
    raise Answered


@post("/worker/progress", status_code=200, **_RUN)
async def worker_progress(data: JSONBody[BeatsBody]) -> LostAnswer:
    """Say that executions are alive, and how far they are."""
    raise Answered


@post("/worker/logs", status_code=200, **_RUN)
async def worker_logs(data: JSONBody[LinesBody]) -> LostAnswer:
    """Store what handlers logged."""
    raise Answered


@post("/worker/metrics", status_code=204, **_RUN)
async def worker_metrics(data: JSONBody[CountBody]) -> None:
    """Add to what handlers count: sums by job type and name since the call before."""
    raise Answered


@post("/worker/deregister", status_code=204, **_RUN)
async def worker_deregister(data: JSONBody[Deregister]) -> None:
    """End a worker's lease. 409 while it holds jobs: hand them back first, unless its process
    `died`."""
    raise Answered


HANDLERS = [
    create_job,
    create_job_in,
    create_jobs,
    create_jobs_in,
    worker_register,
    worker_heartbeat,
    worker_claim,
    worker_complete,
    worker_progress,
    worker_logs,
    worker_metrics,
    worker_deregister,
]
