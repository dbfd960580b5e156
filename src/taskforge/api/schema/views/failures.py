"""Groups of failures as callers see them, and the bodies that change their jobs."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.failure_group import FailureDetails, FailureGroup, Trend


class FailureGroupView(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts are counted: a job that fails three times counts thrice. Without the permission
    job:payload messages are empty and the example is null; `redacted` tells that apart."""

    id: UUID
    project: str
    job_type: str
    error_type: str
    message: str
    """Without what differs from one job to the next: numbers, ids, quoted texts, paths"""
    count: int
    first_seen: Time
    last_seen: Time
    trend: Trend
    """The last hour beside the one before"""
    hours: tuple[int, ...]
    """How many in each of the last 24 hours; the last of them is now"""
    queues: tuple[str, ...]
    """In which it failed, most first; at most 20"""
    job_id: UUID
    """The last one that failed so"""
    is_rest: bool
    """Whatever failed in further ways on a day that already had 500 new groups of the project; its
    jobs are not known"""
    redacted: bool


class JobsNow(msgspec.Struct, frozen=True):
    count: int
    more: bool
    """Counting ends at 10,000"""


class FailureExampleView(msgspec.Struct, frozen=True):
    job_id: UUID
    execution_id: UUID | None
    error_type: str
    message: str
    traceback: str
    failed_at: Time | None


class FailureDetailsView(FailureGroupView, frozen=True, kw_only=True):
    failed: JobsNow
    """Jobs that have failed so for good, and are in the group now"""
    dead_letters: JobsNow
    """Jobs that failed so and wait in a dead letter queue"""
    example: FailureExampleView | None
    """One failure as it was; null: no job of the group is kept"""


class RetryGroupBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    attempts: int | None = None
    """How many more for each that has failed; dead letters begin anew"""
    dry_run: bool = False
    """Change nothing: say how many jobs would be changed, up to 10,000"""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """Change about so many, and say where to go on; otherwise all"""
    cursor: str | None = None
    """Go on behind what a call with `limit` has changed"""


class DeleteGroupBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    dry_run: bool = False
    """Change nothing: say how many jobs would be deleted, up to 10,000"""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """Delete about so many, and say where to go on; otherwise all"""
    cursor: str | None = None
    """Go on behind what a call with `limit` has deleted"""


def failure_group_view(
    group: FailureGroup, names: Mapping[int, str], *, open_error: bool
) -> FailureGroupView:
    return FailureGroupView(**_fields(group, names, open_error))


def failure_details_view(
    details: FailureDetails, names: Mapping[int, str], *, open_error: bool
) -> FailureDetailsView:
    example = details.example if open_error else None
    return FailureDetailsView(
        **_fields(details.group, names, open_error),
        failed=JobsNow(details.failed.count, details.failed.more),
        dead_letters=JobsNow(details.dead_letters.count, details.dead_letters.more),
        example=None if example is None else FailureExampleView(*msgspec.structs.astuple(example)),
    )


def _fields(group: FailureGroup, names: Mapping[int, str], open_error: bool) -> dict[str, Any]:
    other = {
        "project": names.get(group.project, ""),
        "message": group.message if open_error else "",
        "redacted": not open_error,
    }
    own = (name for name in FailureGroupView.__struct_fields__ if name not in other)
    return other | {name: getattr(group, name) for name in own}
