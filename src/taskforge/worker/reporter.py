"""Carries progress, logs and heartbeats to the store: batched, bounded, never in a handler's
way."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from taskforge.domain.custom_value import CustomCounter
from taskforge.domain.errors import StoreFault, StoreUnavailable, TaskForgeError
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import Level, NewLine
from taskforge.ports.work_source import WorkSource
from taskforge.worker.context import Running, current, current_worker, metadata_bytes

logger = logging.getLogger("taskforge.worker")
MOST_LINES = 20_000
MOST_AT_ONCE = 1_000
FLUSH_SECONDS = 0.25
COUNT_SECONDS = 5.0  # what a worker that dies has counted in them is lost
# A job that is over sooner is never told apart from its end: most are, and pay nothing for this.
STARTED_AFTER_SECONDS = 0.1


_installing = threading.Lock()
_installed: list["JobLogHandler"] = []  # the same one for each worker


class Reporter:
    """The channel of every context in this process."""

    def __init__(self, source: WorkSource, on_lost: Callable[[Sequence[UUID]], None]) -> None:
        self._source = source
        self._on_lost = on_lost
        self._lines: deque[tuple[float, NewLine]] = deque()
        self._dropped: Counter[UUID] = Counter()
        self._progress: dict[UUID, tuple[float | None, str | None]] = {}
        self._guard = threading.Lock()
        self._flushing = asyncio.Lock()
        self._counter = CustomCounter()
        self._counted_until = time.monotonic()
        self.on_count: Callable[[str, str, float], None] | None = None

    # --- Called from handlers, on any thread ---

    def progress(self, fence: UUID, fraction: float | None, message: str | None) -> None:
        with self._guard:
            self._update_progress(fence, fraction, message)

    def line(self, line: NewLine) -> None:
        with self._guard:
            if len(self._lines) >= MOST_LINES:
                # a handler that floods its log must not fill the memory, nor wait
                self._dropped[line.fence] += 1
                return
            self._lines.append((time.monotonic(), line))

    def metric(self, job: Claimed, name: str, value: float) -> None:
        with self._guard:
            self._counter.add(job.job_type, name, value, time.monotonic())
            if self.on_count is not None:
                self.on_count(job.job_type, name, value)

    async def beat(self, beat: Beat) -> bool:
        try:
            lost = await self._source.beat([beat])
        except StoreUnavailable:
            return True  # a handler must not fail because the store is away for a moment
        if lost:
            self._on_lost(lost)
        return not lost

    # --- Called by the worker ---

    async def run(self, running: dict[UUID, Running]) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            # kept, and sent with the next flush; or told of
            with contextlib.suppress(StoreUnavailable, StoreFault):
                await self.flush(running)
                if time.monotonic() - self._counted_until >= COUNT_SECONDS:
                    await self.flush_counts()

    async def flush(self, running: dict[UUID, Running] | None = None) -> None:
        # What another flush carries just now counts as well: a job must not end before its last
        # lines are written.
        if (
            not self._lines
            and not self._progress
            and running is None
            and not self._flushing.locked()
        ):
            return
        async with self._flushing:
            await self._flush_beats(running or {})
            await self._flush_lines()

    async def flush_counts(self) -> None:
        """What handlers counted. A store or server that does not take it is asked again; one that
        refuses it, or knows nothing of it yet, is not."""
        self._counted_until = time.monotonic()
        with self._guard:
            sums = self._counter.take(self._counted_until)
        try:
            for start in range(0, len(sums), MOST_AT_ONCE):
                await self._source.count(sums[start : start + MOST_AT_ONCE])
        except (StoreUnavailable, StoreFault):
            with self._guard:
                self._counter.put_back(sums, time.monotonic())
        except TaskForgeError as error:
            logger.warning("what handlers counted is lost: %s", error)

    async def _flush_beats(self, running: dict[UUID, Running]) -> None:
        now = time.monotonic()
        with self._guard:
            progress, self._progress = self._progress, {}
            heard = {line.fence for _, line in self._lines} | progress.keys()
        beats = {
            fence: Beat(fence=fence, progress=fraction, message=message)
            for fence, (fraction, message) in progress.items()
        }
        # Whoever is heard of has started: when, is told before.
        news = [
            one
            for one in running.values()
            if not one.told
            and (now - one.started >= STARTED_AFTER_SECONDS or one.claimed.fence in heard)
        ]
        for one in news:
            fence = one.claimed.fence
            fraction, message = progress.get(fence, (None, None))
            beats[fence] = Beat(
                fence=fence,
                started_seconds_ago=now - one.started,
                progress=fraction,
                message=message,
                # that it began is its worker's word, and no heartbeat of the handler's
                alive=fence in progress,
            )
        if beats:
            try:
                lost = await self._source.beat(list(beats.values()))
            except StoreUnavailable:
                with self._guard:
                    newer, self._progress = self._progress, progress
                    for fence, (fraction, message) in newer.items():
                        self._update_progress(fence, fraction, message)
                raise
            for one in news:
                one.told = True
            if lost:
                self._on_lost(lost)

    def _update_progress(self, fence: UUID, fraction: float | None, message: str | None) -> None:
        """What is not given stays as it was said before."""
        before = self._progress.get(fence, (None, None))
        self._progress[fence] = (
            before[0] if fraction is None else fraction,
            before[1] if message is None else message,
        )

    async def _flush_lines(self) -> None:
        with self._guard:
            taken, self._lines = self._lines, deque()
            dropped, self._dropped = self._dropped, Counter()
        now = time.monotonic()
        lines = [
            NewLine(line.fence, line.level, line.message, line.metadata, now - at)
            for at, line in taken
        ]
        lines += [
            NewLine(fence, Level.WARN, f"{count:,} log lines were dropped: too many at once")
            for fence, count in dropped.items()
        ]
        sent = 0
        try:
            for sent in range(0, len(lines), MOST_AT_ONCE):
                await self._source.log(lines[sent : sent + MOST_AT_ONCE])
        except StoreUnavailable:
            with self._guard:
                self._lines.extendleft(reversed([(at, line) for at, line in list(taken)[sent:]]))
                self._dropped.update(dropped)
            raise


@contextlib.contextmanager
def job_logging(worker: str | None = None) -> Iterator[None]:
    """While this lasts, what handlers in this process log goes into their executions' logs; once,
    whatever number of workers. What is logged in tasks that begin within tells of this one."""
    if worker is not None:
        current_worker.set(worker)
    root = logging.getLogger()
    with _installing:
        _installed.append(JobLogHandler() if not _installed else _installed[0])
        root.addHandler(_installed[0])  # a second time changes nothing
    try:
        yield
    finally:
        with _installing:
            handler = _installed.pop()
            if not _installed:
                root.removeHandler(handler)


class JobLogHandler(logging.Handler):
    """Standard logging of a handler becomes its execution's log."""

    def emit(self, record: logging.LogRecord) -> None:
        running = current.get()
        if running is None or record.name.startswith("taskforge."):
            return
        try:
            self._pass_on(running, record, _text(record))
        except Exception:  # noqa: BLE001 - logging must never break what it logs
            self.handleError(record)

    def _pass_on(self, running: Running, record: logging.LogRecord, text: str) -> None:
        extra = {"logger": record.name}
        running.channel.line(
            NewLine(running.claimed.fence, _level(record.levelno), text, metadata_bytes(extra))
        )


def _text(record: logging.LogRecord) -> str:
    text = record.getMessage()
    return (
        f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        if record.exc_info
        else text
    )


def _level(number: int) -> Level:
    return max((level for level in Level if level <= number), default=Level.TRACE)
