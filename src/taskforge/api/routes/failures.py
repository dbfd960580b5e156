"""Failures that are alike: which there are, one of them looked into, and their jobs run again or
deleted."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.cursors import Cursor
from taskforge.api.entry.problems import responses
from taskforge.api.routes.job_changes import BulkChanged
from taskforge.api.routes.queues import ProjectName
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.failures import (
    DeleteGroupBody,
    FailureDetailsView,
    FailureGroupView,
    RetryGroupBody,
    failure_details_view,
    failure_group_view,
)
from taskforge.domain.access import Permission
from taskforge.domain.changes import DeleteJob, RetryJob, check_change
from taskforge.domain.errors import Invalid
from taskforge.domain.failure_group import GroupQuery, GroupSort
from taskforge.operations.failures import StoreFailures

SeenAfter = Annotated[
    Time | None, QueryParameter(description="Only groups in which something failed since")
]
Sort = Annotated[GroupSort, QueryParameter(description="The newest or the largest first")]


class FailureGroupList(msgspec.Struct, frozen=True):
    items: list[FailureGroupView]
    next_cursor: str | None
    """Null: this is the last page"""


@get("/failures", permission=Permission.JOB_READ, tags=["Failures"], responses=responses(404))
async def list_failure_groups(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    job_type: FromQuery[str | None] = None,
    seen_after: SeenAfter = None,
    sort: Sort = GroupSort.LAST_SEEN,
    limit: FromQuery[int] = 50,
    cursor: Cursor = None,
) -> FailureGroupList:
    """List groups of failures: attempts of one job type that failed with the same type of error and
    the same message, but for what differs from one job to the next. They are up to date within five
    seconds, and forgotten 30 days after the last failure."""
    query = GroupQuery(
        job_type=job_type, seen_after=seen_after, sort=sort, limit=limit, cursor=cursor
    )
    failures = StoreFailures(caller.platform.engine)
    page = await failures.groups(await caller.projects(project), query)
    names = await caller.project_names()
    open_error = caller.may(Permission.JOB_PAYLOAD)
    views = [failure_group_view(one, names, open_error=open_error) for one in page.groups]
    return FailureGroupList(views, page.cursor)


@get(
    "/failures/{group_id:uuid}",
    permission=Permission.JOB_READ,
    tags=["Failures"],
    responses=responses(404),
)
async def get_failure_group(
    caller: NamedDependency[Caller], group_id: FromPath[UUID]
) -> FailureDetailsView:
    """Read a group of failures, with how many jobs are in it now, and one failure as it was. The
    jobs themselves: `GET /jobs?failure_group=`."""
    group = await caller.failure_group(group_id)
    details = await StoreFailures(caller.platform.engine).details([group.project], group_id)
    names = await caller.project_names(group.project)
    return failure_details_view(details, names, open_error=caller.may(Permission.JOB_PAYLOAD))


@post(
    "/failures/{group_id:uuid}/retry",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Failures"],
    responses=responses(404, 409),
)
async def retry_failure_group(
    caller: NamedDependency[Caller],
    group_id: FromPath[UUID],
    data: JSONBody[RetryGroupBody | None] = None,
) -> BulkChanged:
    """Run the jobs of a group again: those that have failed, and dead letters that wait, which go
    back to the queues they came from. Jobs that do not allow it are counted, not changed."""
    body = data or RetryGroupBody()
    return await _change(caller, group_id, RetryJob(body.attempts), body, "failures.retry")


@post(
    "/failures/{group_id:uuid}/delete",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Failures"],
    responses=responses(404, 409),
)
async def delete_failure_group(
    caller: NamedDependency[Caller],
    group_id: FromPath[UUID],
    data: JSONBody[DeleteGroupBody | None] = None,
) -> BulkChanged:
    """Delete the jobs of a group with their history: those that have failed, and dead letters that
    wait. What the group has counted stays."""
    return await _change(
        caller, group_id, DeleteJob(), data or DeleteGroupBody(), "failures.delete"
    )


async def _change(
    caller: Caller,
    group_id: UUID,
    verb: RetryJob | DeleteJob,
    body: RetryGroupBody | DeleteGroupBody,
    action: str,
) -> BulkChanged:
    check_change(verb)
    for name in ("limit", "cursor"):
        if body.dry_run and getattr(body, name) is not None:
            raise Invalid(name, "is for changes, not for a dry run", "leave it out")
    group = await caller.failure_group(group_id)
    failures, projects = StoreFailures(caller.platform.engine), [group.project]
    if body.dry_run:
        would = await failures.try_change(projects, group_id)
        return BulkChanged(would.changed, would.refused, dry_run=True, more=would.more)
    about = f"failure group {group_id} ({group.job_type}: {group.error_type})"
    note = caller.note(action)
    await caller.platform.records.audit_log.add(note, about, project=group.project, after=body)
    came = await failures.change(projects, group_id, verb, limit=body.limit, cursor=body.cursor)
    return BulkChanged(came.changed, came.refused, next_cursor=came.cursor)


HANDLERS = [
    list_failure_groups,
    get_failure_group,
    retry_failure_group,
    delete_failure_group,
]
