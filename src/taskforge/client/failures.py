"""Groups of failures on a server elsewhere."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.client.requests import get, post, reader
from taskforge.client.transport import Transport
from taskforge.domain.bulk import DryRun, Progress
from taskforge.domain.changes import DeleteJob, RetryJob
from taskforge.domain.failure_group import (
    FailureDetails,
    FailureExample,
    FailureGroup,
    GroupPage,
    GroupQuery,
    Trend,
)
from taskforge.domain.job_page import Counted

AT_A_TIME = 5_000  # jobs that one call changes, so that no answer takes long


class _Group(msgspec.Struct, kw_only=True):
    id: UUID
    job_type: str
    error_type: str
    message: str
    count: int
    first_seen: datetime
    last_seen: datetime
    trend: Trend
    hours: tuple[int, ...]
    queues: tuple[str, ...]
    job_id: UUID
    is_rest: bool

    def group(self) -> FailureGroup:
        return FailureGroup(**{name: getattr(self, name) for name in _Group.__struct_fields__})


class _Page(msgspec.Struct):
    items: list[_Group]
    next_cursor: str | None


class _Details(_Group, kw_only=True):
    failed: Counted
    dead_letters: Counted
    example: FailureExample | None


class _Changed(msgspec.Struct):
    changed: int
    refused: int
    more: bool = False
    next_cursor: str | None = None


_read_page, _read_details, _read_changed = reader(_Page), reader(_Details), reader(_Changed)


class RemoteFailures:
    """Implements the port `Failures`. Which project, the key decides."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def groups(self, projects: Sequence[int], query: GroupQuery) -> GroupPage:
        asked = msgspec.structs.asdict(query)
        found = await self._transport.send(get("/failures", _read_page, **asked))
        return GroupPage([one.group() for one in found.items], found.next_cursor)

    async def details(self, projects: Sequence[int], group: UUID) -> FailureDetails:
        found = await self._transport.send(get(f"/failures/{group}", _read_details))
        return FailureDetails(found.group(), found.failed, found.dead_letters, found.example)

    async def change(
        self,
        projects: Sequence[int],
        group: UUID,
        change: RetryJob | DeleteJob,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Progress:
        changed = refused = 0
        while True:
            most = AT_A_TIME if limit is None else min(AT_A_TIME, limit - changed - refused)
            body = {**_body(change), "limit": most, "cursor": cursor}
            request = post(_path(group, change), _read_changed, body)
            part = await self._transport.send(request)
            changed, refused = changed + part.changed, refused + part.refused
            cursor = part.next_cursor
            if cursor is None or (limit is not None and changed + refused >= limit):
                return Progress(changed, refused, cursor)

    async def try_change(self, projects: Sequence[int], group: UUID) -> DryRun:
        request = post(
            f"/failures/{group}/retry", _read_changed, {"dry_run": True}, repeatable=True
        )
        would = await self._transport.send(request)
        return DryRun(would.changed, would.refused, would.more)


def _path(group: UUID, change: RetryJob | DeleteJob) -> str:
    return f"/failures/{group}/{'retry' if isinstance(change, RetryJob) else 'delete'}"


def _body(change: RetryJob | DeleteJob) -> dict[str, Any]:
    return {"attempts": change.attempts} if isinstance(change, RetryJob) else {}
