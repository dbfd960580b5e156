"""Rollups: what happened to the executions of a project, a queue, a job type or a worker in one
minute, hour or day, in so few bytes that years of it can be kept and read at once."""

import enum
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from taskforge.domain.custom_value import CustomValue, CustomValues, merge_values
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.histogram import (
    Buckets,
    Packed,
    bucket_of,
    buckets_in,
    merge,
    pack,
    percentile,
    unpack,
    unpack_lanes,
)

ANY_WORKER = UUID(int=0)


class Grain(enum.IntEnum):
    """How much time a cell covers."""

    MINUTE = 0
    HOUR = 1
    DAY = 2


MINUTES = {Grain.MINUTE: 1, Grain.HOUR: 60, Grain.DAY: 1_440}
# For how many days cells are kept; between one queue and one worker there are too many minutes to
# keep them beyond the hour that they are summed up to.
KEPT_DAYS = {Grain.MINUTE: 2.0, Grain.HOUR: 90.0, Grain.DAY: 400.0}
PAIR_MINUTE_DAYS = 2 / 24
# How many minutes after its end an hour or a day is summed up: finishes that began within it have
# committed by then, and those that have not are added later.
SETTLE_MINUTES = 2


def minute_at(moment: datetime) -> int:
    return int(moment.timestamp() // 60)


def starts_of(minute: int) -> list[tuple[Grain, int]]:
    """The hour and the day that a minute is summed up to."""
    return [(step, minute - minute % MINUTES[step]) for step in (Grain.HOUR, Grain.DAY)]


def last_settled(now: datetime, step: Grain) -> int:
    """The start of the last hour or day that is over and settled."""
    return minute_at(now) - SETTLE_MINUTES - MINUTES[step]


def first_kept(now: datetime, *, is_pair: bool) -> dict[Grain, int]:
    """The first minute, hour and day that are kept."""
    kept = {**KEPT_DAYS, Grain.MINUTE: PAIR_MINUTE_DAYS} if is_pair else KEPT_DAYS
    this = minute_at(now)
    return {
        step: (this - round(kept[step] * 1_440)) // MINUTES[step] * MINUTES[step] for step in Grain
    }


class Scope(NamedTuple):
    """Whose executions a cell counts: those of the project, of one of its queues, job types or
    workers, or of one worker in one queue."""

    project: int
    queue: int = 0
    job_type: str = ""
    worker: UUID = ANY_WORKER

    @property
    def is_pair(self) -> bool:
        return bool(self.queue) and self.worker != ANY_WORKER


class Gauge(enum.IntEnum):
    """Something that is looked at once a minute instead of being counted."""

    PENDING = 0  # jobs of a queue
    OLDEST_SECONDS = 1  # for how long the first of them waits
    CPU_PERCENT = 2
    MEMORY_BYTES = 3


class Delta(NamedTuple):
    """Executions that ended alike and were written together. Without a status: jobs that arrived,
    what a look saw, or what handlers counted."""

    scope: Scope  # with queue, job type and worker, as far as they are known
    minute: int  # since 1970
    status: ExecutionStatus | None
    amount: int
    durations: Sequence[float] = ()  # milliseconds, of each
    waits: Sequence[float] = ()
    gauges: dict[int, float] = {}  # noqa: RUF012 - never changed
    customs: CustomValues = {}  # noqa: RUF012 - never changed


class Spread:
    """Times of which some were short and some long. The sums are microseconds."""

    __slots__ = ("_buckets", "_lanes", "least", "most", "total")

    def __init__(self) -> None:
        self.total = 0
        self.least: int | None = None
        self.most: int | None = None
        # Both together are the histogram: cells with many buckets are merged as lanes.
        self._buckets: Buckets = {}
        self._lanes = 0

    @property
    def buckets(self) -> Buckets:
        if self._lanes:
            merge(self._buckets, buckets_in(self._lanes))
            self._lanes = 0
        return self._buckets

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    def add(self, milliseconds: Sequence[float]) -> None:
        if not milliseconds:
            return
        buckets = self._buckets
        for one in milliseconds:
            bucket = bucket_of(one)
            buckets[bucket] = buckets.get(bucket, 0) + 1
        # A clock that was set back makes no time negative.
        times = milliseconds if min(milliseconds) >= 0 else [max(0.0, one) for one in milliseconds]
        self._widen(round(sum(times) * 1000), round(min(times) * 1000), round(max(times) * 1000))

    def merge(self, other: "Spread") -> None:
        if other.least is None or other.most is None:
            return
        merge(self._buckets, other._buckets)
        self._lanes += other._lanes
        self._widen(other.total, other.least, other.most)

    def _widen(self, total: int, least: int, most: int) -> None:
        self.total += total
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)

    def figures(self) -> "SpreadFigures":
        if self.least is None or self.most is None:
            return SpreadFigures()
        least, most = self.least / 1000, self.most / 1000

        buckets = self.buckets

        def at(share: float) -> float:
            return round(percentile(buckets, share, least, most), 3)

        average = round(self.total / self.count / 1000, 3)
        return SpreadFigures(average, least, most, at(0.5), at(0.95), at(0.99))

    def to_plain(self) -> list[object] | None:
        if self.least is None:
            return None
        return [self.total, self.least, self.most, pack(self.buckets)]

    @classmethod
    def from_plain(cls, plain: tuple[int, int, int, Packed] | None) -> "Spread":
        spread = cls()
        if plain is not None:
            spread.total, spread.least, spread.most, packed = plain
            if isinstance(packed, bytes):
                spread._lanes = unpack_lanes(packed)
            else:
                spread._buckets = unpack(packed)
        return spread


class SpreadFigures(msgspec.Struct, frozen=True):
    """In milliseconds; None where there was nothing to measure."""

    avg: float | None = None
    min: float | None = None
    max: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


_COUNTED = (
    ExecutionStatus.SUCCEEDED,
    ExecutionStatus.FAILED,
    ExecutionStatus.RETRY_SCHEDULED,
    ExecutionStatus.DEAD_LETTER,
    ExecutionStatus.CANCELLED,
)
_POSITION = {status: position for position, status in enumerate(_COUNTED, start=1)}


class Cell:
    """One scope in one minute, hour or day."""

    __slots__ = ("counts", "customs", "durations", "gauges", "waits")

    def __init__(self) -> None:
        self.counts = [0] * (len(_COUNTED) + 1)  # arrived, then executions by how they ended
        self.durations = Spread()  # of executions that succeeded
        self.waits = Spread()  # of all executions
        self.gauges: dict[int, tuple[int, float, float]] = {}  # looks, their sum, the highest
        self.customs: CustomValues = {}  # of a job type: what its handlers counted, by name

    @property
    def arrived(self) -> int:
        return self.counts[0]

    def ended(self, status: ExecutionStatus) -> int:
        return self.counts[_POSITION[status]]

    def add(self, delta: Delta) -> None:
        if delta.status is None:
            self.counts[0] += delta.amount
        else:
            self.counts[_POSITION[delta.status]] += delta.amount
            if delta.status is ExecutionStatus.SUCCEEDED:
                self.durations.add(delta.durations)
            self.waits.add(delta.waits)
        for gauge, value in delta.gauges.items():
            self._look(gauge, 1, value, value)
        if delta.customs:
            merge_values(self.customs, delta.customs)

    def merge(self, other: "Cell") -> None:
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.durations.merge(other.durations)
        self.waits.merge(other.waits)
        for gauge, (looks, total, most) in other.gauges.items():
            self._look(gauge, looks, total, most)
        if other.customs:
            merge_values(self.customs, other.customs)

    def _look(self, gauge: int, looks: int, total: float, most: float) -> None:
        before = self.gauges.get(gauge, (0, 0.0, 0.0))
        self.gauges[gauge] = (before[0] + looks, before[1] + total, max(before[2], most))

    def encode(self) -> bytes:
        plain: list[object] = [self.counts, self.durations.to_plain(), self.waits.to_plain()]
        if self.gauges or self.customs:
            plain.append({gauge: list(seen) for gauge, seen in self.gauges.items()})
        if self.customs:
            plain.append(self.customs)
        return msgspec.msgpack.encode(plain)


_decode = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_counts = msgspec.msgpack.Decoder(list[int]).decode
_decode_spread = msgspec.msgpack.Decoder(tuple[int, int, int, Packed] | None).decode
_decode_gauges = msgspec.msgpack.Decoder(dict[int, tuple[int, float, float]]).decode
_decode_customs = msgspec.msgpack.Decoder(CustomValues).decode
_decode_seen = msgspec.json.Decoder(dict[str, float | CustomValue]).decode


def decode_seen(text: str | None) -> tuple[dict[int, float], CustomValues]:
    """Of a delta: what a look saw by gauges, or what handlers counted by names."""
    if text is None:
        return {}, {}
    gauges: dict[int, float] = {}
    customs: CustomValues = {}
    for name, value in _decode_seen(text).items():
        if isinstance(value, tuple):
            customs[name] = value
        else:
            gauges[int(name)] = value
    return gauges, customs


def decode_cell(data: bytes) -> Cell:
    cell = Cell()
    counts, durations, waits, *more = _decode(data)
    cell.counts = _decode_counts(counts)
    cell.durations = Spread.from_plain(_decode_spread(durations))
    cell.waits = Spread.from_plain(_decode_spread(waits))
    if more:
        cell.gauges = _decode_gauges(more[0])
    if len(more) > 1:
        cell.customs = _decode_customs(more[1])
    return cell


def sum_deltas(deltas: Iterable[Delta]) -> dict[tuple[Scope, int], Cell]:
    """By scope and minute: what these deltas add to every scope that they belong to."""
    finest: dict[tuple[Scope, int], Cell] = {}
    for delta in deltas:
        key = (delta.scope, delta.minute)
        cell = finest.get(key)
        if cell is None:
            cell = finest[key] = Cell()
        cell.add(delta)
    cells: dict[tuple[Scope, int], Cell] = {}
    for (scope, minute), part in finest.items():
        for wider in scopes_of(scope):
            cell = cells.get((wider, minute))
            if cell is None:
                cell = cells[wider, minute] = Cell()
            cell.merge(part)
            if part.customs and not wider.job_type:
                cell.customs = {}  # names mean the same within a job type only
    return cells


def scopes_of(scope: Scope) -> Iterator[Scope]:
    """Every scope that counts an execution of this queue, job type and worker."""
    project, queue, job_type, worker = scope
    yield Scope(project)
    if queue:
        yield Scope(project, queue)
    if job_type:
        yield Scope(project, job_type=job_type)
    if worker != ANY_WORKER:
        yield Scope(project, worker=worker)
        if queue:
            yield Scope(project, queue, worker=worker)


def summed_up(cells: Iterable[Cell]) -> Cell:
    total = Cell()
    for cell in cells:
        total.merge(cell)
    return total
