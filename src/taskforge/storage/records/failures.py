"""Groups of failures: endings append what failed, and upkeep adds it to the groups."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import msgspec

from taskforge.domain.errors import Invalid, Stale
from taskforge.domain.failure_group import (
    KEPT_DAYS,
    NEW_A_DAY,
    FailureDelta,
    FailureGroup,
    GroupPage,
    GroupQuery,
    GroupSort,
    StoredGroup,
    check_query,
    day_of,
)
from taskforge.domain.failure_kind import rest_of
from taskforge.ports.records import Records, Step

EVER, NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
BEHIND_ALL = 2**62
_MOMENT = timedelta(microseconds=1)
Key = tuple[int, UUID]  # project and group


class _Version(msgspec.Struct, frozen=True):
    version: int


class _Count(msgspec.Struct, frozen=True):
    count: int


class _Name(msgspec.Struct, frozen=True):
    number: int
    name: str


class FailureRecords:
    def __init__(self, records: Records) -> None:
        self._records = records

    # --- Counting ---

    async def fold(self, limit: int) -> int:
        """Add failures to their groups; how many deltas there were. Nothing while another process
        is at it, whose write comes first."""
        [seen] = await self._records.look(_Version, "failure_fold")
        deltas = await self._records.look(FailureDelta, "failure_deltas", limit)
        if not deltas:
            return 0
        found = await self._records.look(StoredGroup, "failure_groups_behind", deltas[-1].number)
        groups: dict[Key, StoredGroup] = {(one.project, one.failure): one for one in found}
        sorted_in = await self._sort_in(deltas, groups)
        steps = [Step("raise_failure_fold", (seen.version,), partial(Stale, "somebody was first"))]
        for key, some in sorted_in.items():
            group = groups.get(key) or StoredGroup.begin(
                msgspec.structs.replace(some[0], failure=key[1]), rest_of(key[0])
            )
            steps.append(Step("put_failure_group", _columns(group.with_more(some))))
        steps.append(Step("remove_failure_deltas", ([delta.number for delta in deltas],)))
        with suppress(Stale):
            await self._records.write(steps)
            return len(deltas)
        return 0

    async def _sort_in(
        self, deltas: Iterable[FailureDelta], groups: dict[Key, StoredGroup]
    ) -> dict[Key, list[FailureDelta]]:
        """By group. A day has room for so many new ones of a project; what fails otherwise goes to
        one group for all of it, which is looked up when it is needed."""
        today = day_of(await self._records.now())
        room: dict[int, int] = {}
        sorted_in: dict[Key, list[FailureDelta]] = {}
        for delta in deltas:
            project, key = delta.project, (delta.project, delta.failure)
            if key not in groups and key not in sorted_in:
                if project not in room:
                    [made] = await self._records.look(
                        _Count, "count_failure_groups", project, today
                    )
                    room[project] = NEW_A_DAY - made.count
                if room[project] > 0:
                    room[project] -= 1
                else:
                    key = (project, rest_of(project))
                    if key not in sorted_in and key not in groups:
                        for rest in await self._group(*key):
                            groups[key] = rest
            sorted_in.setdefault(key, []).append(delta)
        return sorted_in

    async def prune(self, limit: int) -> int:
        """Forget groups in which nothing failed for long; how many."""
        before = await self._records.now() - timedelta(days=KEPT_DAYS)
        answers = await self._records.write([Step("remove_old_failure_groups", (before, limit))])
        return len(answers[0])

    # --- Reading ---

    async def groups(self, projects: Sequence[int], query: GroupQuery) -> GroupPage:
        check_query(query)
        by_count = query.sort is GroupSort.COUNT
        value, number = _position(query.cursor)
        behind = value if by_count else min(NEVER, EVER + value * _MOMENT)
        found: list[StoredGroup] = []
        for project in projects:
            found += await self._records.look(
                StoredGroup,
                "failure_groups_by_count" if by_count else "failure_groups_by_time",
                *(project, query.seen_after or EVER, query.job_type, behind, number, query.limit),
            )
        found.sort(key=lambda group: (_value(group, query.sort), group.number), reverse=True)
        page = found[: query.limit]
        is_full = len(page) == query.limit
        cursor = _cursor(_value(page[-1], query.sort), page[-1].number) if is_full else None
        return GroupPage(await self._show(page), cursor)

    async def find(self, projects: Sequence[int], failure: UUID) -> FailureGroup | None:
        for project in projects:
            found = await self._group(project, failure)
            if found:
                return (await self._show(found))[0]
        return None

    async def _group(self, project: int, failure: UUID) -> list[StoredGroup]:
        return await self._records.look(StoredGroup, "failure_group", project, failure)

    async def _show(self, groups: Sequence[StoredGroup]) -> list[FailureGroup]:
        counts = [group.queue_counts() for group in groups]
        numbers = sorted({number for queues in counts for number in queues})
        named = await self._records.look(_Name, "names_of_queues", numbers) if numbers else []
        names = {one.number: one.name for one in named}
        now = await self._records.now()
        return [
            group.shown([names[one] for one in sorted(queues, key=queues.__getitem__)[::-1]], now)
            for group, queues in zip(groups, counts, strict=True)
        ]


def _columns(group: StoredGroup) -> tuple[object, ...]:
    return tuple(getattr(group, name) for name in StoredGroup.__struct_fields__ if name != "number")


def _value(group: StoredGroup, sort: GroupSort) -> int:
    return group.count if sort is GroupSort.COUNT else (group.last_seen - EVER) // _MOMENT


def _cursor(value: int, number: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(8) + number.to_bytes(8)).decode().rstrip("=")


def _position(cursor: str | None) -> tuple[int, int]:
    """Behind which value and number the page begins."""
    if cursor is None:
        return BEHIND_ALL // 1_000, BEHIND_ALL
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (ValueError, binascii.Error):
        raw = b""
    value, number = int.from_bytes(raw[:8]), int.from_bytes(raw[8:])
    if len(raw) != 16 or value > BEHIND_ALL // 1_000 or number > BEHIND_ALL:
        raise Invalid(
            "cursor",
            "is not one that a listing returned",
            "pass the cursor of the page before, unchanged",
        )
    return value, number
