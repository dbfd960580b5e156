"""Changes of many jobs, asked of a server elsewhere."""

from collections.abc import Sequence
from typing import Any, assert_never
from uuid import UUID

import msgspec

from taskforge.client.jobs import narrowed
from taskforge.client.requests import Request, post, reader
from taskforge.client.transport import Transport
from taskforge.domain.bulk import DryRun, Progress
from taskforge.domain.changes import (
    CancelJob,
    DeleteJob,
    EditJob,
    ErasePayload,
    ExpireJob,
    JobChange,
    RedriveJob,
    RetryJob,
)
from taskforge.domain.errors import Invalid
from taskforge.domain.query import JobFilter

MOST_NAMED = 1_000  # in one call
AT_A_TIME = 5_000  # of those that match, so that no answer takes long


class _Answer(msgspec.Struct):
    changed: int
    refused: int
    more: bool = False
    next_cursor: str | None = None


_answer = reader(_Answer)


def change_matching(
    wanted: JobFilter, change: JobChange, *, cursor: str | None = None
) -> Request[Progress]:
    """About `AT_A_TIME` jobs; the cursor of what came of it leads on."""
    body = {"where": _where(wanted), **_action(change), "limit": AT_A_TIME, "cursor": cursor}
    return post("/jobs/change", _read_progress, body)


def change_named(jobs: Sequence[UUID], change: JobChange) -> Request[Progress]:
    """At most `MOST_NAMED`."""
    return post("/jobs/change", _read_progress, {"ids": list(jobs), **_action(change)})


def try_matching(wanted: JobFilter, change: JobChange) -> Request[DryRun]:
    body = {"where": _where(wanted), **_action(change), "dry_run": True}
    return post("/jobs/change", _read_dry_run, body, repeatable=True)


def try_named(jobs: Sequence[UUID], change: JobChange) -> Request[DryRun]:
    body = {"ids": list(jobs), **_action(change), "dry_run": True}
    return post("/jobs/change", _read_dry_run, body, repeatable=True)


class RemoteBulkChanges:
    """Implements the port `BulkChanges` on a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def change_matching(
        self, projects: Sequence[int], wanted: JobFilter, change: JobChange
    ) -> Progress:
        part = await self._transport.send(change_matching(wanted, change))
        changed, refused = part.changed, part.refused
        while part.cursor is not None:
            request = change_matching(wanted, change, cursor=part.cursor)
            part = await self._transport.send(request)
            changed, refused = changed + part.changed, refused + part.refused
        return Progress(changed, refused)

    async def change_named(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange
    ) -> Progress:
        parts = [await self._transport.send(change_named(some, change)) for some in _parts(jobs)]
        return Progress(sum(part.changed for part in parts), sum(part.refused for part in parts))

    async def try_matching(
        self, projects: Sequence[int], wanted: JobFilter, change: JobChange
    ) -> DryRun:
        return await self._transport.send(try_matching(wanted, change))

    async def try_named(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange
    ) -> DryRun:
        parts = [await self._transport.send(try_named(some, change)) for some in _parts(jobs)]
        changed, refused = (sum(getattr(part, one) for part in parts) for one in _COUNTS)
        return DryRun(changed, refused, more=False)


_COUNTS = ("changed", "refused")


def _parts(jobs: Sequence[UUID]) -> list[list[UUID]]:
    unique = list(dict.fromkeys(jobs))
    return [unique[start : start + MOST_NAMED] for start in range(0, len(unique), MOST_NAMED)]


def _where(wanted: JobFilter) -> dict[str, Any]:
    if wanted == JobFilter():
        return {"everything": True}
    return {name: value for name, value in narrowed(wanted).items() if value not in (None, [])}


def _action(change: JobChange) -> dict[str, Any]:
    match change:
        case CancelJob():
            return {"action": "cancel"}
        case RetryJob(attempts):
            return {"action": "retry", "attempts": attempts}
        case DeleteJob():
            return {"action": "delete"}
        case EditJob():
            return {"action": "move", "queue": change.queue}
        case RedriveJob():
            return {"action": "redrive"}
        case ErasePayload():
            return {"action": "erase"}
        case ExpireJob():
            raise Invalid("change", "is the store's own", "the server expires jobs by itself")
        case _:
            assert_never(change)


def _read_progress(body: bytes) -> Progress:
    found = _answer(body)
    return Progress(found.changed, found.refused, found.next_cursor)


def _read_dry_run(body: bytes) -> DryRun:
    found = _answer(body)
    return DryRun(found.changed, found.refused, found.more)
