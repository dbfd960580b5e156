"""One contender of a benchmark, ours or a peer: its driver, its workers and its store, and what can
be measured of them."""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from bench import processes
from bench.peers.tally import COUNTS
from bench.processes import Failed, tail
from bench.stores import Store

CLIENT_SECONDS = 300.0
STUCK_SECONDS = 20.0
LOOK_SECONDS = 0.02
SETTLE_SECONDS = 1.0
NS = 1e9


class Drained(msgspec.Struct, frozen=True):
    handled: int
    first: int  # nanoseconds, of the first handler start
    last: int  # of the last handler start
    empty: int | None = None  # when the store showed nothing waiting or running

    @property
    def rate(self) -> float:
        """From the first handler to an empty store: what is handled but not yet written down does
        not count as done."""
        assert self.empty is not None
        return self.handled * NS / (self.empty - self.first)

    @property
    def handler_rate(self) -> float:
        return self.handled * NS / max(1, self.last - self.first)


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    store: Store
    client: tuple[str, ...]  # the driver; the word and the count follow
    worker: tuple[str, ...]
    unfinished: str  # for `Store.ask`
    environment: dict[str, str] = {}
    scheme: str = ""
    has_setup: bool = False

    # --- Steps ---

    async def prepare(self) -> None:
        await self.store.empty()
        if self.has_setup:
            with temporary_folder() as folder:
                await self.tell("setup", 0, folder)

    async def tell(self, word: str, count: int, folder: Path) -> float:
        """Run the driver; answers with the jobs per second that it reports, or 0."""
        command = [*self.client, word, str(count)]
        text = await processes.output(command, self._environment(folder), CLIENT_SECONDS, folder)
        told = [line for line in text.splitlines() if line.startswith("{")]
        if not told:
            return 0.0
        answer = json.loads(told[-1])
        return float(answer["count"] / answer["seconds"])

    @asynccontextmanager
    async def working(self, count: int, folder: Path) -> AsyncIterator[None]:
        async with processes.running(
            [self.worker] * count, self._environment(folder), folder / "log"
        ):
            yield

    async def wait_for(self, handled: int, folder: Path) -> Drained:
        """Until so many handlers have run. Raises `Failed` when nothing has moved for a while."""
        seen, moved = 0, time.monotonic()
        while True:
            counted = read_counts(folder)
            if counted.handled >= handled:
                return counted
            if counted.handled != seen:
                seen, moved = counted.handled, time.monotonic()
            if time.monotonic() - moved > STUCK_SECONDS:
                log = folder / "log"
                said = tail(log.read_text(errors="replace")) if log.exists() else ""
                raise Failed(
                    f"{self.name}: {seen:,} of {handled:,} jobs handled, then nothing for "
                    f"{STUCK_SECONDS:.0f} s: {said}"
                )
            await asyncio.sleep(LOOK_SECONDS)

    def _environment(self, folder: Path) -> dict[str, str]:
        return self.environment | {
            "BENCH_URL": self.scheme + self.store.url,
            "BENCH_RUN": str(folder),
        }

    # --- What is measured ---

    async def enqueue(self, word: str, count: int) -> float:
        await self.prepare()
        with temporary_folder() as folder:
            return await self.tell(word, count, folder)

    async def drain(self, count: int, workers: int) -> Drained:
        await self.prepare()
        with temporary_folder() as folder:
            await self.tell("bulk", count, folder)
            await self.store.settle()
            async with self.working(workers, folder):
                counted = await self.wait_for(count, folder)
                give_up = time.monotonic() + STUCK_SECONDS
                while left := await self.store.ask(self.unfinished):
                    if time.monotonic() > give_up:
                        raise Failed(
                            f"{self.name}: all jobs were handled, but {left:,} are not finished"
                        )
                    await asyncio.sleep(LOOK_SECONDS / 2)
                return msgspec.structs.replace(counted, empty=time.time_ns())

    async def drain_behind(self, head: int, count: int, workers: int) -> Drained:
        """Behind jobs that nobody handles, some of the others failing: until `count` handlers ran.
        What is to be tried again by then is not timed, because the rate would be that of waiting
        for it."""
        await self.prepare()
        with temporary_folder() as folder:
            await self.tell("head", head, folder)
            await self.tell("bulk", count, folder)
            await self.store.settle()
            async with self.working(workers, folder):
                return await self.wait_for(count, folder)

    async def pickup(self, count: int) -> list[float]:
        """Milliseconds from just before the enqueue to the start of the handler, one job at a time
        on an idle worker."""
        await self.prepare()
        with temporary_folder() as folder:
            async with self.working(1, folder):
                await self.tell("single", 1, folder)
                await self.wait_for(1, folder)
                await asyncio.sleep(SETTLE_SECONDS)
                await self.tell("pickup", count, folder)
                await asyncio.sleep(SETTLE_SECONDS)
            return read_delays(folder, count)

    async def pickup_within(self, count: int) -> list[float]:
        """The same with the worker in the process that enqueues."""
        await self.prepare()
        with temporary_folder() as folder:
            await self.tell("within", count, folder)
            return read_delays(folder, count)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="taskforge-") as name:
        yield Path(name)


def read_counts(folder: Path) -> Drained:
    counts = [
        COUNTS.unpack(data)
        for file in folder.glob("counts-*")
        if len(data := file.read_bytes()) == COUNTS.size
    ]
    counts = [one for one in counts if one[0]]
    if not counts:
        return Drained(0, 0, 0)
    handled, first, last = zip(*counts, strict=True)
    return Drained(sum(handled), min(first), max(last))


def read_delays(folder: Path, count: int) -> list[float]:
    delays = [
        int(line) / 1e6 for file in folder.glob("delays-*") for line in file.read_text().split()
    ]
    if len(delays) < count:
        raise Failed(f"only {len(delays):,} of {count:,} jobs were picked up")
    return delays
