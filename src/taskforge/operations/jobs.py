"""Enqueueing and steering jobs: one door in front of the engine."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.job import Inserted, NewJob, Refused, StoredJob
from taskforge.domain.job_page import is_full, take_page
from taskforge.domain.query import JobFilter, Page, cursor_at
from taskforge.ports.engine import AnyEngine

SLICE = 500
READ_AT_ONCE = 10  # of jobs that are named one by one, payloads and results with them


class Progress(msgspec.Struct, frozen=True):
    """How far a bulk change is."""

    changed: int
    refused: int


async def enqueue(engine: AnyEngine, project: int, job: NewJob) -> Inserted:
    """One job; raises why it was refused."""
    answer = (await engine.insert(project, [job]))[0]
    if isinstance(answer, Refused):
        raise answer.error
    return answer


async def read_some(
    engine: AnyEngine, projects: Sequence[int], jobs: Sequence[UUID]
) -> tuple[list[StoredJob], str | None]:
    """The named jobs as far as a page goes, and the cursor of the last one when there are more."""
    found: list[StoredJob] = []
    wanted = list(dict.fromkeys(jobs))
    for start in range(0, len(wanted), READ_AT_ONCE):
        found += await engine.get(projects, wanted[start : start + READ_AT_ONCE])
        page = take_page(found)
        if len(page) < len(found) or (is_full(page) and start + READ_AT_ONCE < len(wanted)):
            return page, cursor_at(page[-1].id)
    return found, None


async def change(
    engine: AnyEngine,
    projects: Sequence[int],
    job: UUID,
    verb: JobChange,
    *,
    note: Note | None = None,
) -> Changed:
    """Change one job; raises why it was refused."""
    answer = (await engine.change(projects, [job], verb, note=note))[0]
    if isinstance(answer, Refused):
        raise answer.error
    return answer


async def change_where(
    engine: AnyEngine, projects: Sequence[int], wanted: JobFilter, verb: JobChange
) -> AsyncIterator[Progress]:
    """Change every job that matches, in slices, telling how far it is after each. Jobs that do not
    allow the change are counted, not raised: between the listing and the change they may have moved
    on."""
    changed = refused = 0
    page = Page(limit=SLICE)
    while found := await engine.list_jobs(projects, wanted, page):
        answers = await engine.change(projects, [job.id for job in found], verb)
        changed += sum(isinstance(answer, Changed) for answer in answers)
        refused += sum(isinstance(answer, Refused) for answer in answers)
        yield Progress(changed, refused)
        page = Page(limit=SLICE, cursor=cursor_at(found[-1].id))
