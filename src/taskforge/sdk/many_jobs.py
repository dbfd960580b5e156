"""Many jobs from Python: `forge.jobs`. One job is for its handle."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Unpack
from uuid import UUID

import msgspec

from taskforge.domain.changes import (
    CancelJob,
    DeleteJob,
    EditJob,
    ErasePayload,
    JobChange,
    RedriveJob,
    RetryJob,
)
from taskforge.domain.decoded import DecodedJob, DecodedPage, decode_job, decode_page
from taskforge.domain.errors import Invalid
from taskforge.domain.job_page import Counted
from taskforge.domain.job_parts import JobPart
from taskforge.domain.query import JobFilter, Page, QueueStats, check_page
from taskforge.operations.jobs import READ_AT_ONCE
from taskforge.operations.naming import find_queue
from taskforge.sdk.handles import id_of
from taskforge.sdk.job_listing import JobListing, JobSelection, filter_of
from taskforge.wiring import bulk_changes_of

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge

Ids = Sequence[UUID | str]


class ManyChanged(msgspec.Struct, frozen=True):
    """What came of a change of many jobs, or with `dry_run` would come of it."""

    changed: int
    refused: int  # they did not allow it
    more: bool = False  # of a dry run: there may be more than were counted


class AppJobs:
    """`forge.jobs`: what the REST API has of them too. Which jobs is said by `queue`, `status`,
    `job_type`, `priority`, `tag`, `created_after`, `created_before`, `scheduled_after`,
    `scheduled_before` and `failure_group`; a list of values is any of them."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    def list(
        self,
        *,
        include: Iterable[str] = (),
        page_size: int = 200,
        **selection: Unpack[JobSelection],
    ) -> JobListing:
        """All that match, newest first, read as they are asked for: `async for job in
        forge.jobs.list(status="failed"): …`. `include`: payload, result or both, which a list
        leaves out."""
        page = Page(limit=page_size, include=_parts(include))
        return JobListing(self._app, filter_of(selection), page)

    async def page(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        offset: int = 0,
        include: Iterable[str] = (),
        **selection: Unpack[JobSelection],
    ) -> DecodedPage:
        """One page; pass its cursor for the one behind. A page may be short, or empty: only one
        without a cursor is the last."""
        page = Page(limit=limit, cursor=cursor, offset=offset, include=_parts(include))
        check_page(page)
        engine = await self._app.engine()
        return decode_page(await engine.list_jobs([engine.home], filter_of(selection), page))

    async def get(self, ids: Ids) -> Sequence[DecodedJob]:
        """Those with these ids, whole and in their order, as far as they are there."""
        engine, wanted = await self._app.engine(), _unique(ids)
        found: dict[UUID, DecodedJob] = {}
        for start in range(0, len(wanted), READ_AT_ONCE):
            part = await engine.get([engine.home], wanted[start : start + READ_AT_ONCE])
            found.update((job.id, decode_job(job)) for job in part)
        return [found[job] for job in wanted if job in found]

    async def count(self, **selection: Unpack[JobSelection]) -> Counted:
        """How many match, up to 10,000; `more` says that there may be more."""
        engine = await self._app.engine()
        return await engine.count_jobs([engine.home], filter_of(selection))

    async def stats(self, queue: UUID | str | None = None) -> Sequence[QueueStats]:
        """How many jobs of each queue, or of one, are in each status."""
        engine = await self._app.engine()
        if queue is None:
            return await engine.stats([engine.home])
        return await engine.stats([engine.home], of=[(await find_queue(engine, str(queue))).id])

    # --- Changes: of those with these ids, of those that match, or of everything ---

    async def retry(
        self,
        ids: Ids | None = None,
        *,
        attempts: int | None = None,
        everything: bool = False,
        dry_run: bool = False,
        **selection: Unpack[JobSelection],
    ) -> ManyChanged:
        """Run failed and cancelled jobs again; `attempts` grants each that many more."""
        verb = RetryJob(attempts)
        return await self._change(verb, ids, selection, everything=everything, dry_run=dry_run)

    async def cancel(
        self,
        ids: Ids | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        **selection: Unpack[JobSelection],
    ) -> ManyChanged:
        """Those that wait end at once, those that run are asked to stop."""
        verb = CancelJob()
        return await self._change(verb, ids, selection, everything=everything, dry_run=dry_run)

    async def delete(
        self,
        ids: Ids | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        **selection: Unpack[JobSelection],
    ) -> ManyChanged:
        """Finished jobs, with their history."""
        verb = DeleteJob()
        return await self._change(verb, ids, selection, everything=everything, dry_run=dry_run)

    async def move(
        self,
        to: UUID | str,
        ids: Ids | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        **selection: Unpack[JobSelection],
    ) -> ManyChanged:
        """Jobs that wait, to another queue."""
        verb = EditJob(queue=str(to))
        return await self._change(verb, ids, selection, everything=everything, dry_run=dry_run)

    async def redrive(
        self,
        ids: Ids | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        **selection: Unpack[JobSelection],
    ) -> ManyChanged:
        """Dead letters, back to the queues they came from, with a fresh budget."""
        verb = RedriveJob()
        return await self._change(verb, ids, selection, everything=everything, dry_run=dry_run)

    async def erase(
        self,
        ids: Ids | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        **selection: Unpack[JobSelection],
    ) -> ManyChanged:
        """The payloads of finished jobs, for good."""
        verb = ErasePayload()
        return await self._change(verb, ids, selection, everything=everything, dry_run=dry_run)

    async def _change(
        self,
        verb: JobChange,
        ids: Ids | None,
        selection: JobSelection,
        *,
        everything: bool,
        dry_run: bool,
    ) -> ManyChanged:
        wanted = filter_of(selection)
        if (ids is not None) + (wanted != JobFilter()) + everything != 1:
            raise Invalid(
                "jobs",
                "are named in no way, or in more than one",
                "give ids, or a filter such as status, or everything=True",
            )
        engine = await self._app.engine()
        bulk, projects = bulk_changes_of(engine), [engine.home]
        if dry_run:
            would = await (
                bulk.try_matching(projects, wanted, verb)
                if ids is None
                else bulk.try_named(projects, _unique(ids), verb)
            )
            return ManyChanged(would.changed, would.refused, would.more)
        came = await (
            bulk.change_matching(projects, wanted, verb)
            if ids is None
            else bulk.change_named(projects, _unique(ids), verb)
        )
        return ManyChanged(came.changed, came.refused)


def _unique(ids: Ids) -> list[UUID]:
    return list(dict.fromkeys(id_of(job) for job in ids))


def _parts(include: Iterable[str]) -> frozenset[JobPart]:
    names = [include] if isinstance(include, str) else list(include)
    known = tuple(part.value for part in JobPart)
    for name in names:
        if name not in known:
            raise Invalid("include", f"is {name!r}", "use payload, result or both")
    return frozenset(JobPart(name) for name in names)
