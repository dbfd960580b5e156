"""Enqueueing and steering jobs: one door in front of the engine."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.bulk import DryRun, Progress
from taskforge.domain.changes import Changed, JobChange, allows, statuses_for
from taskforge.domain.job import Inserted, JobStatus, NewJob, Refused, StoredJob
from taskforge.domain.job_page import MOST_PAGE_BYTES, Counted, JobPage, next_page, size_of
from taskforge.domain.query import JobFilter, Page, cursor_at
from taskforge.ports.engine import AnyEngine
from taskforge.telemetry import tracing

Store = Callable[[Sequence[NewJob]], Awaitable[list[Inserted | Refused]]]
SLICE = 500
READ_AT_ONCE = 10  # of jobs that are named one by one, payloads and results with them


async def enqueue(engine: AnyEngine, project: int, job: NewJob) -> Inserted:
    """One job; raises why it was refused."""
    answer = (await send([job], lambda jobs: engine.insert(project, jobs)))[0]
    if isinstance(answer, Refused):
        raise answer.error
    return answer


async def send(jobs: Sequence[NewJob], store: Store) -> list[Inserted | Refused]:
    """Jobs to where they are stored, with the trace that they belong to."""
    if not tracing.is_live():
        return await store(jobs)
    with tracing.SendSpan(jobs) as span:
        answers = await store(span.jobs)
        span.tell(answers)
        return answers


async def read_some(
    engine: AnyEngine, projects: Sequence[int], jobs: Sequence[UUID]
) -> tuple[list[StoredJob], str | None]:
    """The named jobs as far as a page goes, and the cursor of the last one when there are more."""
    found: list[StoredJob] = []
    total = 0
    wanted = list(dict.fromkeys(jobs))
    for start in range(0, len(wanted), READ_AT_ONCE):
        part = await engine.get(projects, wanted[start : start + READ_AT_ONCE])
        for index, job in enumerate(part, 1):
            found.append(job)
            total += size_of(job)
            if total >= MOST_PAGE_BYTES:
                is_last = index == len(part) and start + READ_AT_ONCE >= len(wanted)
                return found, None if is_last else cursor_at(job.id)
    return found, None


async def read_pages(
    engine: AnyEngine, projects: Sequence[int], wanted: JobFilter, page: Page
) -> AsyncIterator[JobPage]:
    """Page after page to the end; among them short and empty ones."""
    following: Page | None = page
    while following is not None:
        found = await engine.list_jobs(projects, wanted, following)
        yield found
        following = next_page(page, found)


async def fill_page(
    engine: AnyEngine, projects: Sequence[int], wanted: JobFilter, page: Page, *, seconds: float
) -> JobPage:
    """One page, for which a search that comes back with little goes on for so long."""
    ends_at = time.monotonic() + seconds
    jobs: list[StoredJob] = []
    while True:
        rest = msgspec.structs.replace(page, limit=page.limit - len(jobs))
        found = await engine.list_jobs(projects, wanted, rest)
        jobs += found.jobs
        following = next_page(page, found)
        if following is None or len(jobs) >= page.limit or time.monotonic() > ends_at:
            return JobPage(jobs, found.cursor)
        page = following


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
    engine: AnyEngine,
    projects: Sequence[int],
    wanted: JobFilter,
    verb: JobChange,
    *,
    cursor: str | None = None,
) -> AsyncIterator[Progress]:
    """Change every job that matches, in slices, telling how far it is after each. Jobs that do not
    allow the change are counted, not raised: between the listing and the change they may have moved
    on."""
    changed = refused = 0
    async for found in read_pages(engine, projects, wanted, Page(limit=SLICE, cursor=cursor)):
        if found.jobs:
            answers = await engine.change(projects, [job.id for job in found.jobs], verb)
            changed += sum(isinstance(answer, Changed) for answer in answers)
            refused += sum(isinstance(answer, Refused) for answer in answers)
        yield Progress(changed, refused, found.cursor)


async def dry_run(
    engine: AnyEngine, projects: Sequence[int], wanted: JobFilter, verb: JobChange
) -> DryRun:
    """How many of the jobs that match a change would change, by their statuses, and how many it
    would refuse."""
    allowed = statuses_for(verb)
    counts = []
    for some in (allowed, frozenset(JobStatus) - allowed):
        statuses = tuple(status for status in wanted.statuses or JobStatus if status in some)
        narrowed = msgspec.structs.replace(wanted, statuses=statuses)
        counts.append(
            await engine.count_jobs(projects, narrowed) if statuses else Counted(0, more=False)
        )
    would, would_not = counts
    return DryRun(would.count, would_not.count, would.more or would_not.more)


async def dry_run_named(
    engine: AnyEngine, projects: Sequence[int], jobs: Sequence[UUID], verb: JobChange
) -> DryRun:
    """The same for jobs that are named, each judged as it stands."""
    unique = list(dict.fromkeys(jobs))
    changed = 0
    for start in range(0, len(unique), READ_AT_ONCE):
        found = await engine.get(projects, unique[start : start + READ_AT_ONCE])
        changed += sum(allows(verb, job) for job in found)
    return DryRun(changed, len(unique) - changed, more=False)
