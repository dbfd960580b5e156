"""Groups of failures: found, looked into, and their jobs run again or deleted."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from taskforge.domain import rules
from taskforge.domain.bulk import DryRun, Progress
from taskforge.domain.changes import (
    CancelJob,
    Changed,
    DeleteJob,
    JobChange,
    RedriveJob,
    RetryJob,
    check_change,
)
from taskforge.domain.errors import Gone, Invalid, NotFound
from taskforge.domain.failure_group import (
    FailureDetails,
    FailureExample,
    FailureGroup,
    GroupPage,
    GroupQuery,
)
from taskforge.domain.ids import fence_of
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.job_page import MOST_COUNTED
from taskforge.domain.query import JobFilter, Page, check_page
from taskforge.operations.jobs import SLICE, read_pages
from taskforge.ports.engine import Engine
from taskforge.storage.records.failures import FailureRecords

FAILED = (JobStatus.FAILED,)
WAITING = (JobStatus.PENDING, JobStatus.SCHEDULED)
# The parts of a change, in their order, and the first letter of a cursor in each. What has failed
# in a dead letter queue and is retried there must not be met again as a dead letter that waits.
_PARTS = {"d": WAITING, "f": FAILED}
MOST_AT_ONCE = 1_000_000


class StoreFailures:
    """Implements the port `Failures` on a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._records = FailureRecords(engine)

    async def groups(self, projects: Sequence[int], query: GroupQuery) -> GroupPage:
        return await self._records.groups(projects, query)

    async def details(self, projects: Sequence[int], group: UUID) -> FailureDetails:
        found = await self.find(projects, group)
        failed, dead = [
            await self._engine.count_jobs(projects, jobs_of(group, statuses))
            for statuses in (FAILED, WAITING)
        ]
        return FailureDetails(found, failed, dead, await self._example(projects, found))

    async def find(self, projects: Sequence[int], group: UUID) -> FailureGroup:
        found = await self._records.find(projects, group)
        if found is None:
            raise NotFound("failure group", str(group))
        return found

    async def change(
        self,
        projects: Sequence[int],
        group: UUID,
        change: RetryJob | DeleteJob,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Progress:
        check_change(change)
        part, position = _position(cursor)
        if limit is not None:
            rules.integer("limit", limit, 1, MOST_AT_ONCE)
        await self.find(projects, group)
        last = Progress(0, 0)
        async for last in self._walk(projects, group, change, part, position):
            if limit is not None and last.changed + last.refused >= limit:
                return last
        return Progress(last.changed, last.refused)

    async def try_change(self, projects: Sequence[int], group: UUID) -> DryRun:
        await self.find(projects, group)
        counts = [
            await self._engine.count_jobs(projects, jobs_of(group, statuses))
            for statuses in _PARTS.values()
        ]
        total = sum(one.count for one in counts)
        more = total > MOST_COUNTED or any(one.more for one in counts)
        return DryRun(min(total, MOST_COUNTED), 0, more)

    async def _walk(
        self,
        projects: Sequence[int],
        group: UUID,
        change: RetryJob | DeleteJob,
        part: str,
        position: str | None,
    ) -> AsyncIterator[Progress]:
        """Change them page by page, telling how far it is after each."""
        changed = refused = 0
        parts = list(_PARTS)[list(_PARTS).index(part) :]
        for at in parts:
            wanted, page = jobs_of(group, _PARTS[at]), Page(limit=SLICE, cursor=position)
            position = None
            async for found in read_pages(self._engine, projects, wanted, page):
                jobs = [job.id for job in found.jobs]
                done = await self._change(projects, jobs, change, of_dead=at == "d") if jobs else 0
                changed, refused = changed + done, refused + len(jobs) - done
                if found.cursor is not None:
                    yield Progress(changed, refused, at + found.cursor)
            following = parts[-1] if at != parts[-1] else None
            yield Progress(changed, refused, following)

    async def _change(
        self,
        projects: Sequence[int],
        jobs: list[UUID],
        change: RetryJob | DeleteJob,
        *,
        of_dead: bool,
    ) -> int:
        """How many allowed it."""
        verb: JobChange = change
        if of_dead and isinstance(change, RetryJob):
            verb = RedriveJob()
        elif of_dead:
            # only what is finished can be deleted
            reason = CancelJob("deleted with its group of failures")
            answers = await self._engine.change(projects, jobs, reason)
            ended = [one for one in answers if isinstance(one, Changed)]
            jobs = [one.job for one in ended if one.status is JobStatus.CANCELLED]
        answers = await self._engine.change(projects, jobs, verb) if jobs else []
        return sum(isinstance(answer, Changed) for answer in answers)

    async def _example(self, projects: Sequence[int], group: FailureGroup) -> FailureExample | None:
        """The last failure, or, where its job is gone, that of a job that is in the group now."""
        try:
            executions = await self._engine.executions(projects, group.job_id)
        except (NotFound, Gone):
            executions = []
        execution_id = fence_of(group.job_id, group.epoch) if group.epoch else None
        for one in executions:
            if one.id == execution_id and one.error is not None:
                error, at = one.error, one.finished_at
                texts = (error.type, error.message, error.traceback)
                return FailureExample(group.job_id, one.id, *texts, at)
        jobs = await self._engine.get(projects, [group.job_id]) if not group.epoch else []
        if not jobs:
            page = await self._engine.list_jobs(projects, jobs_of(group.id, ()), Page(limit=1))
            jobs = page.jobs
        return _of_job(jobs[0]) if jobs else None


def jobs_of(group: UUID, statuses: tuple[JobStatus, ...]) -> JobFilter:
    return JobFilter(failure_group=group, statuses=statuses)


def _of_job(job: StoredJob) -> FailureExample | None:
    if job.error is None:
        return None
    error = job.error
    texts = (error.type, error.message, error.traceback)
    return FailureExample(job.id, None, *texts, job.completed_at)


def _position(cursor: str | None) -> tuple[str, str | None]:
    """The part in which a change goes on, and where."""
    if not cursor:
        return next(iter(_PARTS)), None
    if cursor[0] not in _PARTS:
        raise Invalid(
            "cursor", "is not one that a change returned", "pass the cursor of the call before"
        )
    position = cursor[1:] or None
    check_page(Page(cursor=position))
    return cursor[0], position
