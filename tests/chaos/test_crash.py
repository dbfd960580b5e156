"""R3 and kill -9: what a caller was told survives the death of the caller, of the engine and
of PostgreSQL itself.

Real processes, real signals. The history of acknowledged calls is compared with what the
store holds afterwards.

    TASKFORGE_KILLS=10 TASKFORGE_STOPS=5   (the short forms; the long ones are marked `long`)
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost, StoreUnavailable
from taskforge.domain.execution import Beat
from taskforge.domain.ids import epoch_of, job_of
from taskforge.domain.job import Inserted, JobStatus, new_job
from taskforge.domain.outcome import Finish, ToSucceeded, decide
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import Engine
from taskforge.testing.postgres import LocalServer
from tests.chaos.load import make

pytestmark = pytest.mark.rotates

KILLS = int(os.environ.get("TASKFORGE_KILLS", "10"))
STOPS = int(os.environ.get("TASKFORGE_STOPS", "5"))


class History:
    """What callers were told."""

    def __init__(self) -> None:
        self.inserted: set[UUID] = set()
        self.finished: Counter[UUID] = Counter()  # fences
        self.met = 0  # kills or stops that met acknowledged work of both kinds

    def hear(self, line: str) -> None:
        kind, _, identifier = line.partition(" ")
        if kind == "I":
            self.inserted.add(UUID(identifier))
        else:
            self.finished[UUID(identifier)] += 1

    async def losses(self, engine: Engine) -> list[str]:
        """Everything the store does not hold as it was told."""
        told = sorted(self.inserted | {job_of(fence) for fence in self.finished})
        held = {}
        for start in range(0, len(told), 500):
            held |= {job.id: job for job in await engine.get([1], told[start : start + 500])}
        lost = [f"insert of {job}" for job in self.inserted if job not in held]
        for fence, times in self.finished.items():
            job = held.get(job_of(fence))
            if job is None or job.status is not JobStatus.SUCCEEDED or job.epoch != epoch_of(fence):
                lost.append(f"finish of {fence}")
            if times > 1:
                lost.append(f"{fence} was accepted {times} times")
        by_job = Counter(job_of(fence) for fence in self.finished)
        return lost + [
            f"{job} was finished under {count} fences" for job, count in by_job.items() if count > 1
        ]


async def finish_everything(engine: Engine) -> None:
    """What the dead left behind is rescued and done: nothing is stuck."""
    worker = await engine.register(1, NewWorker(name="undertaker", max_concurrent_jobs=1_000), 60)
    async with asyncio.timeout(60):
        while True:
            lapsed = await engine.lapsed(500)
            finishes = [
                Finish(one.fence, decide(one.attempt, one.outcome, one.policy, 0.5))
                for one in lapsed
            ]
            await engine.finish(finishes, lapsed=True)
            await engine.stage(1_000)
            claimed = await engine.claim(Claim(worker.incarnation, 500))
            await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
            [stats] = await engine.stats([1])
            if stats.pending + stats.scheduled + stats.processing == 0:
                return
            await asyncio.sleep(0 if claimed or lapsed else 0.05)


# --- kill -9 of the process that holds the engine ---


@pytest.fixture(params=["sqlite", "postgres"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, server_directory: Path
) -> Iterator[tuple[str, str]]:
    if request.param == "sqlite":
        yield "sqlite", str(tmp_path / "taskforge.db")
        return
    with LocalServer.start(server_directory) as server:
        yield "postgres", server.url()


def live_and_die(
    kind: str, target: str, name: str, history: History, dice: random.Random, manner: str = ""
) -> None:
    """Start the load, let it get going until it was told of inserts and of ends, kill it, and hear
    what it managed to say."""
    command = [sys.executable, str(Path(__file__).with_name("load.py")), kind, target, name, manner]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        deadline, kinds = 0.0, set()
        for line in process.stdout:
            history.hear(line.strip())
            if kinds != {"I", "F"}:
                kinds.add(line[0])
                deadline = time.monotonic() + dice.uniform(0.05, 0.4)
            elif time.monotonic() > deadline:
                break
        history.met += kinds == {"I", "F"}
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            history.hear(line.strip())
    assert process.returncode == -signal.SIGKILL


async def kill_again_and_again(kind: str, target: str, kills: int) -> None:
    engine, history, dice = make(kind, target), History(), random.Random(7)
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="default"))
        for number in range(kills):
            await asyncio.to_thread(live_and_die, kind, target, f"load-{number}", history, dice)
            # of all that was ever told: after each of many it would take hours
            if number % max(1, kills // 20) == 0:
                assert await history.losses(engine) == []
        await finish_everything(engine)
        assert await history.losses(engine) == []
    finally:
        await engine.close()
    print(
        f"{kind}: 0 lost of n = {len(history.inserted)} inserts and {len(history.finished)} "
        f"finishes, {kills} kills"
    )
    assert history.met == kills


@pytest.mark.timeout(300)
async def test_nothing_acknowledged_is_lost_when_processes_are_killed(
    target: tuple[str, str],
) -> None:
    await kill_again_and_again(*target, KILLS)


async def test_a_process_that_speaks_too_soon_is_caught(target: tuple[str, str]) -> None:
    """The broken twin: told before the store had answered, so that a kill in between is a loss."""
    engine, history, dice = make(*target), History(), random.Random(11)
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="default"))
        lost: list[str] = []
        for number in range(10):
            await asyncio.to_thread(live_and_die, *target, f"load-{number}", history, dice, "hasty")
            lost = await history.losses(engine)
            if lost:
                break
    finally:
        await engine.close()
    assert lost != []


@pytest.mark.long
async def test_nothing_acknowledged_is_lost_in_many_kills(target: tuple[str, str]) -> None:
    await kill_again_and_again(*target, 1_000)


# --- R3: PostgreSQL stopped with immediate mode under load ---


class Load:
    """Callers that go on through every outage, as an application would."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.history = History()
        self.over = asyncio.Event()
        self.served_at = 0.0

    def told(self) -> tuple[int, int]:
        return len(self.history.inserted), len(self.history.finished)

    async def enqueue(self) -> None:
        while not self.over.is_set():
            try:
                answers = await self._engine.insert(
                    1, [new_job("default", "work", "x" * 50) for _ in range(2)]
                )
            except StoreUnavailable:
                await asyncio.sleep(0.02)
                continue
            self.served_at = time.monotonic()
            self.history.inserted |= {
                answer.job for answer in answers if isinstance(answer, Inserted)
            }

    async def work(self, name: str) -> None:
        incarnation: UUID | None = None
        while not self.over.is_set():
            try:
                if incarnation is None:
                    incarnation = (
                        await self._engine.register(
                            1, NewWorker(name=name, max_concurrent_jobs=1_000), 2.0
                        )
                    ).incarnation
                claimed = await self._engine.claim(Claim(incarnation, 5))
                # What need not be on disk is written beside what must be, over the same
                # connections.
                await self._engine.beat([Beat(fence=one.fence, progress=0.5) for one in claimed])
                await self._engine.renew(incarnation, 2.0, Sample())
                lost = {
                    one.fence
                    for one in await self._engine.finish(
                        [Finish(one.fence, ToSucceeded()) for one in claimed]
                    )
                }
                self.history.finished.update(one.fence for one in claimed if one.fence not in lost)
            except LeaseLost:
                incarnation = None
            except StoreUnavailable:
                await asyncio.sleep(0.02)


async def stop_again_and_again(server: LocalServer, stops: int) -> tuple[History, list[str], float]:
    """Returns what was told, what of it was lost, and the longest time until the store served
    again."""
    engine = make("postgres", server.url())
    await engine.open()
    slowest = 0.0
    try:
        await engine.change_queue(1, CreateQueue(name="default"))
        await engine.insert(1, [new_job("default", "work")])
        connection = await asyncpg.connect(server.url())
        # the twin may lose jobs, but neither its schema nor its lanes
        await connection.execute("checkpoint")
        await connection.close()
        load, dice = Load(engine), random.Random(3)
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(load.enqueue())
                group.create_task(load.work(f"w{number}"))
            for _ in range(stops):
                before = load.told()
                await asyncio.sleep(dice.uniform(0.3, 0.8))
                async with asyncio.timeout(30):
                    while any(now == then for now, then in zip(load.told(), before, strict=True)):
                        await asyncio.sleep(0.01)
                load.history.met += 1
                await asyncio.to_thread(server.restart, "immediate")
                back = time.monotonic()
                async with asyncio.timeout(30):
                    while load.served_at < back:
                        await asyncio.sleep(0.01)
                slowest = max(slowest, load.served_at - back)
            load.over.set()
        await finish_everything(engine)
        return load.history, await load.history.losses(engine), slowest
    finally:
        await engine.close()


@pytest.mark.timeout(300)
async def test_nothing_acknowledged_is_lost_when_postgres_stops_at_once(
    server_directory: Path,
) -> None:
    with LocalServer.start(server_directory) as server:
        history, lost, slowest = await stop_again_and_again(server, STOPS)
    told = len(history.inserted) + len(history.finished)
    print(
        f"R3: {len(lost)} lost of n = {told} acknowledged calls, {STOPS} stops, serving after "
        f"{slowest:.2f} s"
    )
    assert lost == []
    assert slowest <= 5.0
    assert history.met == STOPS


@pytest.mark.long
async def test_nothing_acknowledged_is_lost_in_many_stops(server_directory: Path) -> None:
    with LocalServer.start(server_directory) as server:
        _, lost, slowest = await stop_again_and_again(server, 100)
    assert lost == []
    assert slowest <= 5.0


@pytest.mark.timeout(300)
async def test_an_engine_that_answers_before_the_log_is_on_disk_is_caught(
    server_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin of R3: with asynchronous commits the last moments before a stop are lost, and
    the history shows it."""
    from taskforge.storage.postgres import connections

    monkeypatch.setitem(connections.SESSION, "synchronous_commit", "off")
    patient = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
    with LocalServer.start(server_directory, settings=patient) as server:
        _, lost, _ = await stop_again_and_again(server, 3)
    assert lost != []
