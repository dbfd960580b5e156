"""Groups of failures that are alike: how many there were, since when, where, and whether they
become more."""

import enum
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.failure_kind import message_of
from taskforge.domain.job_page import Counted

HOURS = 24
NEW_A_DAY = 500
"""Groups that one project gets in a day; what fails in further ways is counted in one group."""
KEPT_DAYS = 30.0
"""So long after its last failure a group is forgotten."""
MOST_QUEUES = 20
"""That a group names; failures in further ones are only counted."""
MOST_LISTED = 200
_RISES, _FALLS, _LITTLE = 1.5, 1 / 1.5, 3.0
HOUR = timedelta(hours=1)


class Trend(enum.StrEnum):
    """The last hour beside the one before."""

    NEW = "new"  # nothing before the last hour
    RISING = "rising"
    STEADY = "steady"
    FALLING = "falling"
    QUIET = "quiet"  # nothing in the last hour


class GroupSort(enum.StrEnum):
    LAST_SEEN = "last_seen"
    COUNT = "count"


class FailureDelta(msgspec.Struct, frozen=True):
    """Failures of one batch that are alike, with one of them."""

    number: int
    project: int
    queue: int
    job_type: str
    failure: UUID
    count: int
    job: UUID
    epoch: int  # of its execution; 0: it never ran
    error_type: str
    message: str
    at: datetime


class Tally(msgspec.Struct):
    """Counts that a store keeps without looking into them."""

    hours: dict[int, int] = {}  # by hours since 1970
    queues: dict[int, int] = {}

    def add(self, hour: int, queue: int, count: int) -> None:
        self.hours[hour] = self.hours.get(hour, 0) + count
        if queue in self.queues or len(self.queues) < MOST_QUEUES:
            self.queues[queue] = self.queues.get(queue, 0) + count
        newest = max(self.hours)
        # one more than is shown: the hour that is now is not over
        self.hours = {at: many for at, many in self.hours.items() if at >= newest - HOURS}


class StoredGroup(msgspec.Struct, frozen=True):
    """A group as stores keep it. `tally`: a Tally, as JSON."""

    number: int
    project: int
    failure: UUID
    job_type: str
    error_type: str
    message: str
    first_seen: datetime
    last_seen: datetime
    count: int
    tally: str
    job: UUID  # the last one
    epoch: int

    @classmethod
    def begin(cls, first: FailureDelta, rest: UUID) -> Self:
        """`rest`: the group of its project for whatever has none of its own."""
        is_rest = first.failure == rest
        return cls(
            number=0,
            project=first.project,
            failure=first.failure,
            job_type="" if is_rest else first.job_type,
            error_type="" if is_rest else first.error_type,
            message="" if is_rest else message_of(first.error_type, first.message),
            first_seen=first.at,
            last_seen=first.at,
            count=0,
            tally="{}",
            job=first.job,
            epoch=first.epoch,
        )

    def with_more(self, deltas: Sequence[FailureDelta]) -> Self:
        tally = _tally(self.tally)
        for delta in deltas:
            tally.add(hour_of(delta.at), delta.queue, delta.count)
        last = max(deltas, key=lambda delta: delta.at)
        return msgspec.structs.replace(
            self,
            first_seen=min(self.first_seen, *(delta.at for delta in deltas)),
            last_seen=max(self.last_seen, last.at),
            count=self.count + sum(delta.count for delta in deltas),
            tally=msgspec.json.encode(tally).decode(),
            job=last.job,
            epoch=last.epoch,
        )

    def queue_counts(self) -> dict[int, int]:
        return _tally(self.tally).queues

    def shown(self, queues: Sequence[str], now: datetime) -> "FailureGroup":
        """`queues`: their names, where it failed most first."""
        hours = _tally(self.tally).hours
        this = hour_of(now)
        return FailureGroup(
            id=self.failure,
            project=self.project,
            job_type=self.job_type,
            error_type=self.error_type,
            message=self.message,
            count=self.count,
            first_seen=self.first_seen,
            last_seen=self.last_seen,
            trend=trend_of(hours, self.first_seen, now),
            hours=tuple(hours.get(hour, 0) for hour in range(this - HOURS + 1, this + 1)),
            queues=tuple(queues),
            job_id=self.job,
            is_rest=not self.error_type,
            number=self.number,
            epoch=self.epoch,
        )


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failures that are alike. Attempts are counted: a job that fails three times counts thrice."""

    id: UUID
    project: int = 0
    job_type: str
    error_type: str
    message: str  # without what differs from one job to the next
    count: int
    first_seen: datetime
    last_seen: datetime
    trend: Trend
    hours: tuple[int, ...]  # how many in each of the last 24 hours, the last is now
    queues: tuple[str, ...]
    job_id: UUID  # the last one that failed so
    is_rest: bool = False  # failures for which a day had no room for groups of their own
    number: int = 0
    epoch: int = 0


class FailureExample(msgspec.Struct, frozen=True):
    """One failure of a group, as it was."""

    job_id: UUID
    execution_id: UUID | None  # None: the job never ran
    error_type: str
    message: str
    traceback: str
    failed_at: datetime | None


class FailureDetails(msgspec.Struct, frozen=True):
    """A group, the jobs that are in it now, and one failure; None: no job of it is kept."""

    group: FailureGroup
    failed: Counted  # jobs that have failed so for good
    dead_letters: Counted  # that wait in their dead letter queue
    example: FailureExample | None


class GroupQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups, and in which order: the newest or the largest first."""

    job_type: str | None = None
    seen_after: datetime | None = None
    sort: GroupSort = GroupSort.LAST_SEEN
    limit: int = 50
    cursor: str | None = None


class GroupPage(msgspec.Struct, frozen=True):
    groups: list[FailureGroup]
    cursor: str | None  # of the page behind; None: it is the last


def check_query(query: GroupQuery) -> None:
    rules.integer("limit", query.limit, 1, MOST_LISTED)
    if query.seen_after is not None:
        rules.moment("seen_after", query.seen_after)


def hour_of(moment: datetime) -> int:
    return int(moment.timestamp() // 3_600)


def day_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def trend_of(hours: dict[int, int], first_seen: datetime, now: datetime) -> Trend:
    """The last sixty minutes beside those before, as far as counts by the hour tell."""
    this = hour_of(now)
    part = (now.timestamp() % 3_600) / 3_600  # of this hour that is over
    last, before, first = (hours.get(this - ago, 0) for ago in range(3))
    recent, earlier = last + (1 - part) * before, part * before + (1 - part) * first
    if now - first_seen < HOUR:
        return Trend.NEW
    if not last and not before:
        return Trend.QUIET
    if abs(recent - earlier) < _LITTLE:
        return Trend.STEADY
    if recent > _RISES * earlier:
        return Trend.RISING
    return Trend.FALLING if recent < _FALLS * earlier else Trend.STEADY


_tally = msgspec.json.Decoder(Tally).decode
