"""From a request's body to stored jobs: the one path for one job and for many, hot or
documented."""

from collections.abc import Sequence
from typing import cast
from uuid import UUID

import msgspec

from taskforge.api.entry.bodies import BODY, decoded, examine_large, within
from taskforge.api.entry.caller import Caller
from taskforge.api.entry.problems import Fault, TooLarge, context_of, pointer_of, problem_of
from taskforge.domain import readable_json, rules
from taskforge.domain.alike import Alike
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, TaskForgeError
from taskforge.domain.job import NO_PAYLOAD, Inserted, NewJob, Refused, new_job
from taskforge.domain.job_request import StoredBody, job_of
from taskforge.domain.tenancy import Project
from taskforge.operations.jobs import send

MOST_JOBS = 10_000
MOST_BULK_KEY = 240  # with a job's number behind it, it is that job's own key


class PlainBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """What most jobs of a large call are. A call of nothing else is checked by kind instead of job
    by job."""

    queue: str
    job_type: str
    payload: msgspec.Raw = msgspec.Raw(NO_PAYLOAD)
    priority: int = 0
    trace: str | None = None  # one for all jobs of a call whose caller is traced


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
    """`ids` has an entry for each job in order; null for those that were refused, which `errors`
    explains."""

    ids: list[UUID | None]
    existed: list[int]  # the indexes of jobs that were there before
    errors: list[BulkError]


_one = msgspec.json.Decoder(StoredBody)
_many = msgspec.json.Decoder(list[StoredBody])
_parts = msgspec.json.Decoder(list[msgspec.Raw])
_many_plain = msgspec.json.Decoder(list[PlainBody])


Bodies = Sequence[StoredBody | Invalid] | Sequence[PlainBody]


def decode_one(body: bytes) -> StoredBody:
    made: StoredBody = decoded(_one, body)
    return made


async def decode_many(body: bytes, key: str | None) -> Bodies:
    """Plain jobs as such when there is nothing else in the call: a third of the work. What is no
    job stands as the mistake that it is, and holds up no other."""
    if key is None:
        try:
            plain = _many_plain.decode(body)
            if not await examine_large(BODY, msgspec.Raw(body)):
                readable_json.check_scanned(body)
        except (Invalid, msgspec.MsgspecError, UnicodeError, RecursionError):
            pass  # jobs that have more to them, or a mistake that is found again
        else:
            return plain
    try:
        return _many.decode(body)
    except msgspec.ValidationError:
        parts: list[msgspec.Raw] = decoded(_parts, body)
        if len(parts) > MOST_JOBS:
            raise _too_many(len(parts)) from None
        return [_decode_part(bytes(part)) for part in parts]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        decoded(_many, body)  # says what is wrong with it
        raise


def _decode_part(part: bytes) -> StoredBody | Invalid:
    try:
        return decode_one(part)
    except Invalid as error:
        return error


async def jobs_from(
    bodies: Bodies, note: Note, key: str | None
) -> tuple[Sequence[NewJob], list[tuple[int, Invalid]]]:
    """The jobs, and what is wrong with those that are none, each with its index."""
    if bodies and type(bodies[0]) is PlainBody:
        return _plain_jobs(cast("Sequence[PlainBody]", bodies), note)
    jobs: list[NewJob] = []
    refused: list[tuple[int, Invalid]] = []
    for index, body in enumerate(cast("Sequence[StoredBody | Invalid]", bodies)):
        if isinstance(body, Invalid):
            refused.append((index, body))
            continue
        try:
            jobs.append(await job_from(body, note, None if key is None else f"{key}#{index}"))
        except Invalid as error:
            refused.append((index, error))
    return jobs, refused


def _plain_jobs(
    bodies: Sequence[PlainBody], note: Note
) -> tuple[Sequence[NewJob], list[tuple[int, Invalid]]]:
    """Those alike in queue, type, priority and trace are checked once."""
    kinds = [(body.queue, body.job_type, body.priority, body.trace) for body in bodies]
    templates: dict[tuple[str, str, int, str | None], NewJob | Invalid] = {}
    for kind in set(kinds):
        queue, job_type, priority, trace = kind
        try:
            made: NewJob | Invalid = msgspec.structs.replace(
                new_job(queue, job_type, priority=priority, trace=trace), note=note
            )
        except Invalid as error:
            made = error
        templates[kind] = made
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


async def job_from(body: StoredBody, note: Note | None, key: str | None = None) -> NewJob:
    is_examined = await examine_large("payload", body.payload)
    return msgspec.structs.replace(job_of(body, key, is_examined=is_examined), note=note)


async def create_one(
    caller: Caller, project: str | None, body: StoredBody, key: str | None
) -> JobCreated:
    owner = await caller.project(project)
    job = await job_from(body, caller.note("job.create"), key)
    answer = (await _insert(caller, owner, [job]))[0]
    if isinstance(answer, Refused):
        raise answer.error
    return JobCreated(answer.job, answer.existed)


async def create_many(
    caller: Caller, project: str | None, bodies: Bodies, key: str | None
) -> BulkAnswer:
    if len(bodies) > MOST_JOBS:
        raise _too_many(len(bodies))
    if key is not None:
        rules.text("Idempotency-Key", key, most=MOST_BULK_KEY)
    owner = await caller.project(project)
    jobs, refused = await jobs_from(bodies, caller.note("job.create"), key)
    answers = await _insert(caller, owner, jobs)
    for index, error in refused:
        answers.insert(index, Refused(error))
    # By type: `isinstance` of a struct goes through the checks of abstract classes, five times as
    # long.
    return BulkAnswer(
        ids=[answer.job if type(answer) is Inserted else None for answer in answers],
        existed=[
            index
            for index, answer in enumerate(answers)
            if type(answer) is Inserted and answer.existed
        ],
        errors=[
            _bulk_error(index, answer.error)
            for index, answer in enumerate(answers)
            if type(answer) is Refused
        ],
    )


def _too_many(count: int) -> TooLarge:
    return TooLarge(f"{count:,} jobs in one call; send at most {MOST_JOBS:,}")


async def _insert(
    caller: Caller, project: Project, jobs: Sequence[NewJob]
) -> list[Inserted | Refused]:
    quotas = caller.platform.quotas
    return await send(jobs, lambda those: quotas.insert(project, those)) if jobs else []


def _bulk_error(index: int, error: Exception) -> BulkError:
    if not isinstance(error, TaskForgeError):
        raise error
    faults = []
    if isinstance(error, Invalid):
        placed = within(f"[{index}]", error)
        faults = [Fault(pointer_of(placed.field), placed.problem, placed.expected)]
    return BulkError(index, problem_of(error, "-").type, str(error), faults, context_of(error))
