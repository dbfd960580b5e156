"""From a request's body to stored jobs: the one path for one job and for many, quick or documented."""

from collections.abc import Sequence
from typing import Annotated, Any, cast
from uuid import UUID

import msgspec

from taskforge.api.caller import Caller
from taskforge.api.problems import Fault, TooLarge, context_of, pointer_of, problem_of
from taskforge.api.views import Time
from taskforge.domain import rules
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, TaskForgeError
from taskforge.domain.job import NO_PAYLOAD, Alike, Inserted, NewJob, Refused, new_job
from taskforge.domain.queue import MAX_PAYLOAD_BYTES
from taskforge.domain.tenancy import Project

MOST_JOBS = 10_000
MOST_BULK_KEY = 240  # with a job's number behind it, it is that job's own key
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class NewJobBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A job as callers write it, for the API's document."""

    queue: str
    job_type: str
    payload: Any = {}
    priority: int = 0
    max_attempts: int | None = None
    scheduled_for: Time | None = None
    delay_seconds: Seconds | None = None
    timeout_at: Time | None = None
    deadline_seconds: Seconds | None = None
    """Instead of timeout_at: so long from now"""
    expires_at: Time | None = None
    expires_seconds: Seconds | None = None
    """Instead of expires_at: so long from now"""
    timeout_seconds: float | None = None
    tags: list[str] = []
    requires: dict[str, Any] | None = None
    unique_key: str | None = None
    idempotency_key: str | None = None
    fairness_key: str | None = None
    trace: str | None = None


class StoredBody(NewJobBody, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The same as it is decoded: the payload stays the bytes that came, checked and stored without being written anew."""

    payload: msgspec.Raw = msgspec.Raw(NO_PAYLOAD)


class PlainBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """What most jobs of a large call are. A call of nothing else is checked by kind instead of job by job."""

    queue: str
    job_type: str
    payload: msgspec.Raw = msgspec.Raw(NO_PAYLOAD)
    priority: int = 0


class JobCreated(msgspec.Struct, frozen=True):
    id: UUID
    existed: bool  # a job with the same key was there before


class BulkError(msgspec.Struct, frozen=True):
    index: int
    type: str
    detail: str
    errors: list[Fault] = []
    context: dict[str, str | int] = {}


class BulkAnswer(msgspec.Struct, frozen=True):
    """`ids` has an entry for each job in order; null for those that were refused, which `errors` explains."""

    ids: list[UUID | None]
    existed: list[int]  # the indexes of jobs that were there before
    errors: list[BulkError]


_one = msgspec.json.Decoder(StoredBody)
_many = msgspec.json.Decoder(list[StoredBody])
_many_plain = msgspec.json.Decoder(list[PlainBody])


def decode_one(body: bytes) -> StoredBody:
    made: StoredBody = decoded(_one, body)
    return made


def decode_many(body: bytes, key: str | None) -> list[StoredBody] | list[PlainBody]:
    """Plain jobs as such when there is nothing else in the call: a third of the work."""
    if key is None:
        try:
            rules.check_readable(body)
            return _many_plain.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass  # jobs that have more to them, or a mistake that is found again
    made: list[StoredBody] = decoded(_many, body)
    return made


def decoded(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except RecursionError:
        raise Invalid("body", "is nested too deeply", "use a flatter structure") from None
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise Invalid(path.rstrip("`").lstrip(".") or "body", problem[:1].lower() + problem[1:], "see the API document") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Invalid("body", f"is not JSON ({error})", "send valid JSON in UTF-8") from None


def jobs_from(
    bodies: Sequence[StoredBody] | Sequence[PlainBody], note: Note, key: str | None
) -> tuple[Sequence[NewJob], list[tuple[int, Invalid]]]:
    """The jobs, and what is wrong with those that are none, each with its index."""
    if bodies and type(bodies[0]) is PlainBody:
        return _plain_jobs(cast("Sequence[PlainBody]", bodies), note)
    jobs: list[NewJob] = []
    refused: list[tuple[int, Invalid]] = []
    for index, body in enumerate(cast("Sequence[StoredBody]", bodies)):
        try:
            jobs.append(job_from(body, note, None if key is None else f"{key}#{index}"))
        except Invalid as error:
            refused.append((index, error))
    return jobs, refused


def _plain_jobs(bodies: Sequence[PlainBody], note: Note) -> tuple[Sequence[NewJob], list[tuple[int, Invalid]]]:
    """Those alike in queue, type and priority are checked once."""
    kinds = [(body.queue, body.job_type, body.priority) for body in bodies]
    templates: dict[tuple[str, str, int], NewJob | Invalid] = {}
    for queue, job_type, priority in set(kinds):
        try:
            made: NewJob | Invalid = msgspec.structs.replace(new_job(queue, job_type, priority=priority), note=note)
        except Invalid as error:
            made = error
        templates[queue, job_type, priority] = made
    template = templates[kinds[0]]
    if len(templates) == 1 and isinstance(template, NewJob):
        return Alike(template, [bytes(body.payload) for body in bodies]), []
    jobs: list[NewJob] = []
    refused: list[tuple[int, Invalid]] = []
    for index, (kind, body) in enumerate(zip(kinds, bodies, strict=True)):
        template = templates[kind]
        if isinstance(template, Invalid):
            refused.append((index, template))
        else:
            jobs.append(msgspec.structs.replace(template, payload=bytes(body.payload)))
    return jobs, refused


def job_from(body: StoredBody, note: Note | None, key: str | None = None) -> NewJob:
    """Check everything that does not depend on the queue. The payload's bytes are stored as they came."""
    if key is not None and body.idempotency_key is not None and key != body.idempotency_key:
        raise Invalid("idempotency_key", "differs from the Idempotency-Key header", "use one of them")
    job = new_job(
        body.queue,
        body.job_type,
        priority=body.priority,
        max_attempts=body.max_attempts,
        at=_moment(body, "scheduled_for", "delay_seconds"),
        deadline=_moment(body, "timeout_at", "deadline_seconds"),
        expires=_moment(body, "expires_at", "expires_seconds"),
        timeout_seconds=body.timeout_seconds,
        tags=body.tags,
        requires=body.requires,
        unique_key=body.unique_key,
        idempotency_key=key if key is not None else body.idempotency_key,
        fairness_key=body.fairness_key,
        trace=body.trace,
    )
    payload = rules.json_document("payload", bytes(body.payload), most=MAX_PAYLOAD_BYTES)
    return msgspec.structs.replace(job, payload=payload, note=note)


def _moment(body: StoredBody, instant: str, seconds: str) -> Any:
    at, after = getattr(body, instant), getattr(body, seconds)
    if at is not None and after is not None:
        raise Invalid(seconds, f"is given together with {instant}", "use one of them")
    return at if after is None else after


async def create_one(caller: Caller, project: str | None, body: StoredBody, key: str | None) -> JobCreated:
    owner = await caller.project(project)
    job = job_from(body, caller.note("job.create"), key)
    answer = (await _insert(caller, owner, [job]))[0]
    if isinstance(answer, Refused):
        raise answer.error
    return JobCreated(answer.job, answer.existed)


async def create_many(
    caller: Caller, project: str | None, bodies: list[StoredBody] | list[PlainBody], key: str | None
) -> BulkAnswer:
    if len(bodies) > MOST_JOBS:
        raise TooLarge(f"{len(bodies):,} jobs in one call; send at most {MOST_JOBS:,}")
    if key is not None:
        rules.text("Idempotency-Key", key, most=MOST_BULK_KEY)
    owner = await caller.project(project)
    jobs, refused = jobs_from(bodies, caller.note("job.create"), key)
    answers = await _insert(caller, owner, jobs)
    for index, error in refused:
        answers.insert(index, Refused(error))
    # By type: `isinstance` of a struct goes through the checks of abstract classes, five times as long.
    return BulkAnswer(
        ids=[answer.job if type(answer) is Inserted else None for answer in answers],
        existed=[index for index, answer in enumerate(answers) if type(answer) is Inserted and answer.existed],
        errors=[_bulk_error(index, answer.error) for index, answer in enumerate(answers) if type(answer) is Refused],
    )


async def _insert(caller: Caller, project: Project, jobs: Sequence[NewJob]) -> list[Inserted | Refused]:
    return await caller.backend.quotas.insert(project, jobs) if jobs else []


def _bulk_error(index: int, error: Exception) -> BulkError:
    if not isinstance(error, TaskForgeError):
        raise error
    faults = [Fault(pointer_of(f"[{index}].{error.field}"), error.problem, error.expected)] if isinstance(error, Invalid) else []
    return BulkError(index, problem_of(error, "-").type, str(error), faults, context_of(error))
