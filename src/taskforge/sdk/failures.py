"""Groups of failures from Python: `forge.failures`."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.changes import DeleteJob, RetryJob
from taskforge.domain.errors import Invalid
from taskforge.domain.failure_group import (
    MOST_LISTED,
    FailureDetails,
    FailureGroup,
    GroupPage,
    GroupQuery,
    GroupSort,
)
from taskforge.sdk.many_jobs import ManyChanged
from taskforge.wiring import failures_of

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge

Group = FailureGroup | UUID | str


class AppFailures:
    """`forge.failures`: attempts of one job type that failed with the same type of error and the
    same message, but for what differs from one job to the next. The jobs of a group:
    `forge.jobs.list(failure_group=…)`."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def list(
        self,
        *,
        job_type: str | None = None,
        seen_after: datetime | None = None,
        sort: str = "last_seen",
    ) -> AsyncIterator[FailureGroup]:
        """All groups, read as they are asked for: `async for group in forge.failures.list(): …`.
        `sort`: last_seen or count, the newest or the largest first."""
        query = _query(job_type, seen_after, sort, MOST_LISTED, None)
        while True:
            page = await self._page(query)
            for group in page.groups:
                yield group
            if page.cursor is None:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)

    async def page(
        self,
        *,
        job_type: str | None = None,
        seen_after: datetime | None = None,
        sort: str = "last_seen",
        limit: int = 50,
        cursor: str | None = None,
    ) -> GroupPage:
        """One page; pass its cursor for the one behind."""
        return await self._page(_query(job_type, seen_after, sort, limit, cursor))

    async def get(self, group: Group) -> FailureDetails:
        """A group with how many jobs are in it now, and one failure as it was."""
        engine = await self._app.engine()
        return await failures_of(engine).details([engine.home], _id(group))

    async def retry(
        self, group: Group, *, attempts: int | None = None, dry_run: bool = False
    ) -> ManyChanged:
        """Run its jobs again: those that have failed, and dead letters that wait, which go back to
        the queues they came from. `attempts` grants the former that many more."""
        return await self._change(group, RetryJob(attempts), dry_run=dry_run)

    async def delete(self, group: Group, *, dry_run: bool = False) -> ManyChanged:
        """Delete its jobs with their history. What it has counted stays."""
        return await self._change(group, DeleteJob(), dry_run=dry_run)

    async def _page(self, query: GroupQuery) -> GroupPage:
        engine = await self._app.engine()
        return await failures_of(engine).groups([engine.home], query)

    async def _change(
        self, group: Group, change: RetryJob | DeleteJob, *, dry_run: bool
    ) -> ManyChanged:
        engine = await self._app.engine()
        failures, projects = failures_of(engine), [engine.home]
        if dry_run:
            would = await failures.try_change(projects, _id(group))
            return ManyChanged(would.changed, would.refused, would.more)
        came = await failures.change(projects, _id(group), change)
        return ManyChanged(came.changed, came.refused)


def _query(
    job_type: str | None, seen_after: datetime | None, sort: str, limit: int, cursor: str | None
) -> GroupQuery:
    order = rules.choice("sort", sort, tuple(one.value for one in GroupSort))
    return GroupQuery(
        job_type=job_type,
        seen_after=seen_after,
        sort=GroupSort(order),
        limit=limit,
        cursor=cursor,
    )


def _id(group: Group) -> UUID:
    if isinstance(group, FailureGroup):
        return group.id
    if isinstance(group, UUID):
        return group
    try:
        return UUID(group)
    except (ValueError, TypeError, AttributeError):
        expected = "use one that `forge.failures.list()` returned"
        raise Invalid("group", f"is {group!r}, not the id of a group", expected) from None
