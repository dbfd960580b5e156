"""Enqueueing and steering jobs: one door in front of the engine."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.domain.query import JobFilter, Page, cursor_at
from taskforge.storage.engine import Engine

SLICE = 500


class Progress(msgspec.Struct, frozen=True):
    """How far a bulk change is."""

    changed: int
    refused: int


async def enqueue(engine: Engine, project: int, job: NewJob) -> Inserted:
    """One job; raises why it was refused."""
    answer = (await engine.insert(project, [job]))[0]
    if isinstance(answer, Refused):
        raise answer.error
    return answer


async def change(engine: Engine, projects: Sequence[int], job: UUID, verb: JobChange, *, note: Note | None = None) -> Changed:
    """Change one job; raises why it was refused."""
    answer = (await engine.change(projects, [job], verb, note=note))[0]
    if isinstance(answer, Refused):
        raise answer.error
    return answer


async def change_where(engine: Engine, projects: Sequence[int], wanted: JobFilter, verb: JobChange) -> AsyncIterator[Progress]:
    """Change every job that matches, in slices, telling how far it is after each. Jobs that do not allow the change are counted,
    not raised: between the listing and the change they may have moved on."""
    changed = refused = 0
    page = Page(limit=SLICE)
    while found := await engine.list_jobs(projects, wanted, page):
        answers = await engine.change(projects, [job.id for job in found], verb)
        changed += sum(isinstance(answer, Changed) for answer in answers)
        refused += sum(isinstance(answer, Refused) for answer in answers)
        yield Progress(changed, refused)
        page = Page(limit=SLICE, cursor=cursor_at(found[-1].id))
