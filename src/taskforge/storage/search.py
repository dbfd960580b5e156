"""How a search for jobs goes, on both engines: over streams of ids, each newest first, which are
merged, and over no more rows than a budget allows. What a page costs is then the budget, whatever
is stored; where the budget ends before the page is full, the page is short and its cursor says how
far the search came."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from taskforge.domain.ids import EPOCH_BITS, uuid_from_int
from taskforge.domain.job import JobStatus
from taskforge.domain.job_page import MOST_COUNTED, Counted
from taskforge.domain.query import JobFilter, Page, cursor_at

ROWS = 2_000  # that a page looks at
MERGED = 100  # queues that are walked one by one; beyond them all jobs are walked in one stream
LANES = 200  # that hold jobs, at most, where those of some are read whole
LITTLE = 1_000  # jobs that are read whole, instead of walking all that is there
LEAST, MOST = UUID(int=0), UUID(int=2**128 - 1)
_DEAR = 4  # times as dear as others is a row of which the place must be looked up
_AT_LEAST = 2  # rows that are read of a stream at once
_VEIL = ((1 << 25) - 1) << EPOCH_BITS

FACTS, ALL_FACTS, TAGGED = "facts", "all_facts", "tagged"
FINISHED, UNLUCKY, ALL_FINISHED = "finished", "unlucky", "all_finished"
READY, WAITING, RUNNING = "ready", "waiting", "running"
FAILED, BURIED = "failed", "buried"  # of one group of failures
_PLACES = {
    JobStatus.PENDING: READY,
    JobStatus.SCHEDULED: WAITING,
    JobStatus.PROCESSING: RUNNING,
}
_FOREIGN = (ALL_FACTS, ALL_FINISHED, READY, WAITING, RUNNING)  # walk past rows of other projects


class Stream(NamedTuple):
    walk: str  # which statement reads it
    number: int = 0  # of the queue, or of the project whose tags or failures are read
    word: str = ""  # the tag, the group, or the status of those that did not succeed


class Read(NamedTuple):
    """So many rows of a stream, those older than an id."""

    stream: Stream
    below: UUID
    rows: int


class Stretch(NamedTuple):
    """What a read came upon."""

    looked: int  # rows
    last: UUID | None  # the oldest of their jobs
    ids: Sequence[UUID]  # of those that match


def statuses_of(wanted: JobFilter) -> tuple[JobStatus, ...] | None:
    """The statuses that are looked for, none for any; None: no job can match."""
    if wanted.scheduled_after is None and wanted.scheduled_before is None:
        return tuple(dict.fromkeys(wanted.statuses))
    if wanted.statuses and JobStatus.SCHEDULED not in wanted.statuses:
        return None
    return (JobStatus.SCHEDULED,)


def streams_of(
    wanted: JobFilter, projects: Iterable[int], queues: Sequence[int] | None
) -> list[Stream]:
    """Where the jobs of a filter stand. Up to some queues are walked one by one; None are all of
    the projects, which are more."""
    queues = None if queues is not None and len(queues) > MERGED else queues
    statuses = statuses_of(wanted)
    if statuses is None:
        return []
    if wanted.failure_group is not None:
        walks = [FAILED] * _any_final(statuses) + [BURIED] * _any_open(statuses)
        group = wanted.failure_group.hex
        return [Stream(walk, owner, group) for owner in dict.fromkeys(projects) for walk in walks]
    if wanted.tags:
        owners = dict.fromkeys(projects)
        return [
            Stream(TAGGED, owner, tag) for owner in owners for tag in dict.fromkeys(wanted.tags)
        ]
    if not statuses:
        return [Stream(ALL_FACTS)] if queues is None else [Stream(FACTS, queue) for queue in queues]
    streams = [Stream(_PLACES[status]) for status in statuses if status in _PLACES]
    final = [status for status in statuses if status.is_final]
    if final and queues is None:
        streams.append(Stream(ALL_FINISHED))
    elif JobStatus.SUCCEEDED in final:
        streams += [Stream(FINISHED, queue) for queue in queues or ()]
    else:
        streams += [Stream(UNLUCKY, queue, status) for queue in queues or () for status in final]
    return streams


def _any_final(statuses: Sequence[JobStatus]) -> bool:
    return not statuses or any(status.is_final for status in statuses)


def _any_open(statuses: Sequence[JobStatus]) -> bool:
    return not statuses or any(not status.is_final for status in statuses)


def below_of(wanted: JobFilter, page: Page) -> UUID:
    """Every job of the page is older than this."""
    bounds = (wanted.id_range()[1], page.before())
    return min([bound for bound in bounds if bound is not None], default=MOST)


class Search:
    """One search under way. It says what to read next and is told what came of it; it neither
    waits nor reads itself."""

    def __init__(
        self, streams: Sequence[Stream], wanted: JobFilter, below: UUID, most: int, rows: int
    ) -> None:
        """For `most` jobs, in so many rows."""
        self._open = dict.fromkeys(streams, below)
        self._below = below
        self._least = wanted.id_range()[0] or LEAST
        self._most = most
        is_dear = bool(wanted.tags) and not _asks_tags_alone(wanted)
        self._left = max(1, max(rows, most) // (_DEAR if is_dear else 1))
        self._found: set[UUID] = set()
        self._at_once = 0  # rows that the last reads were for
        self._asks_due = wanted.scheduled_after is not None or wanted.scheduled_before is not None
        self._has_asked = False
        self._read = 0

    def next_reads(self) -> list[Read]:
        """None: it is over. It begins with little, as most searches find at once what they look
        for, and takes more each time."""
        floor = max(self._open.values(), default=LEAST)
        is_done = sum(job >= floor for job in self._found) >= self._most
        if not self._open or self._left <= 0 or (self._at_once and is_done):
            return []
        if self._at_once:
            # The streams that hold up the others, which were read further back.
            streams = [stream for stream, below in self._open.items() if below == floor]
            share = max(1, self._left // len(streams))
            self._at_once = min(share, max(50, 4 * self._at_once))
        else:
            streams = list(self._open)
            share = self._left if len(streams) == 1 else self._left // (2 * len(streams))
            self._at_once = max(_AT_LEAST, min(share, max(100, self._most)))
        return [Read(stream, self._open[stream], self._at_once) for stream in streams]

    def take(self, read: Read, stretch: Stretch) -> None:
        self._found.update(stretch.ids)
        self._left -= stretch.looked
        self._read += 1
        if stretch.looked < read.rows or stretch.last is None:
            del self._open[read.stream]
        else:
            self._open[read.stream] = stretch.last

    @property
    def may_be_little(self) -> bool:
        """Whether it is time to see if a place that is walked holds little of what is looked for,
        and to read that whole: once, when the first stretch did not do."""
        is_time = self._read > 0 and not self._has_asked
        self._has_asked = self._has_asked or is_time
        return is_time and bool(self.short_ways())

    def short_ways(self) -> list[Stream]:
        """Streams with an index that leads to what is rare: of lanes, or of times."""
        ways = [Stream(READY)] + ([Stream(WAITING)] if self._asks_due else [])
        return [stream for stream in ways if stream in self._open]

    def take_all(self, stream: Stream, ids: Iterable[UUID]) -> None:
        """What a stream holds in all."""
        self._found.update(job for job in ids if self._least <= job < self._below)
        del self._open[stream]

    @property
    def floor(self) -> UUID | None:
        """All jobs from this one on were looked at; None: all there are."""
        return max(self._open.values(), default=None)

    def found(self) -> list[UUID]:
        floor = self.floor
        ids = self._found if floor is None else [job for job in self._found if job >= floor]
        return sorted(ids, reverse=True)

    def take_page(self, page: Page) -> tuple[list[UUID], str | None]:
        """The ids of a page, and the cursor of the one behind it."""
        found, floor, skip = self.found(), self.floor, page.skipped()
        ids = found[skip : skip + page.limit]
        if len(found) > skip + page.limit or (floor is not None and len(ids) == page.limit):
            return ids, cursor_at(ids[-1])
        if floor is not None:
            return ids, cursor_at(self._veil(floor, found), max(0, skip - len(found)))
        return ids, None

    def _veil(self, floor: UUID, found: Sequence[UUID]) -> UUID:
        """Where a walk ended, whose last job may be somebody else's: half of what is random in its
        id is not told. That would be no way ahead among jobs that came in one call, but those are
        of one project."""
        if all(stream.walk not in _FOREIGN for stream in self._open):
            return floor
        veiled = uuid_from_int(floor.int | _VEIL)
        is_ahead = veiled < self._below and (not found or veiled <= found[-1])
        return veiled if is_ahead else floor

    def count(self) -> Counted:
        count = len(self.found())
        return Counted(min(count, MOST_COUNTED), self.floor is not None or count > MOST_COUNTED)


def _asks_tags_alone(wanted: JobFilter) -> bool:
    narrows = wanted.queues or wanted.job_types or wanted.priorities
    return not narrows and statuses_of(wanted) == ()
