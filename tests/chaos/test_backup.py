"""O5: a backup under load, restored elsewhere. All that was acknowledged before it is there,
nothing is accepted from leases of before, and whoever read events goes on where it was."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost
from taskforge.domain.finding import Severity
from taskforge.domain.ids import epoch_of, job_of
from taskforge.domain.job import JobStatus, new_job
from taskforge.domain.outcome import Finish, ToSucceeded, decide
from taskforge.domain.query import FIRST
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import Engine
from taskforge.storage.postgres.restores import Restores
from taskforge.testing.postgres import LocalServer
from tests.chaos.fleet import ROOT, Figure, bound
from tests.chaos.load import make

pytestmark = pytest.mark.rotates

WALL = "row-level security"
HELD = 5  # jobs that a worker of before has in its hands
LEAST_TOLD = 300


class Told:
    """What a process under load was told, as far as it is heard."""

    def __init__(self) -> None:
        self.inserted: set[UUID] = set()
        self.finished: set[UUID] = set()

    def hear(self, lines: Iterator[str]) -> None:
        for line in lines:
            kind, _, identifier = line.strip().partition(" ")
            (self.inserted if kind == "I" else self.finished).add(UUID(identifier))

    def so_far(self) -> tuple[set[UUID], set[UUID]]:
        return set(self.inserted), set(self.finished)


@contextmanager
def loaded(kind: str, target: str) -> Iterator[Told]:
    command = [sys.executable, "-m", "tests.chaos.load", kind, target, "load"]
    told = Told()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        listening = threading.Thread(target=told.hear, args=(process.stdout,))
        listening.start()
        try:
            yield told
        finally:
            process.kill()
            listening.join()


@asynccontextmanager
async def opened(kind: str, target: str) -> AsyncIterator[Engine]:
    engine = make(kind, target)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def _back_up(kind: str, target: str, save: "Save") -> tuple[Told, set[UUID], str]:
    """What was acknowledged before the backup, whose fences were out when it was made, and where a
    reader of events was."""
    before = Told()
    async with opened(kind, target) as engine:
        await engine.change_queue(1, CreateQueue(name="default"))
        await engine.change_queue(1, CreateQueue(name="slow"))
        await engine.insert(1, [new_job("slow", "slow") for _ in range(HELD)])
        cursor = (await engine.events(FIRST, 2)).cursor
        worker = NewWorker(name="before", queues=("slow",), max_concurrent_jobs=HELD)
        incarnation = (await engine.register(1, worker, 60)).incarnation
        held = {one.fence for one in await engine.claim(Claim(incarnation, HELD))}
        with loaded(kind, target) as told:
            async with asyncio.timeout(60):
                while min(map(len, told.so_far())) < LEAST_TOLD:
                    await asyncio.sleep(0.05)
            before.inserted, before.finished = told.so_far()
            await asyncio.to_thread(save)
            held |= told.finished - before.finished
        # what the store of before went on with, while the backup was carried elsewhere
        await engine.finish([Finish(fence, ToSucceeded()) for fence in held])
    return before, held, cursor


class Save:
    """Copies a store while others write to it, and puts the copy elsewhere."""

    def __init__(self, kind: str, source: str, folder: Path, other: LocalServer | None) -> None:
        self._kind = kind
        self._source = source
        self._other = other
        self.target = str(folder / "restored.db") if other is None else other.url()
        self._dump = folder / "dump"

    def __call__(self) -> None:
        if self._other is None:
            with sqlite3.connect(self._source) as source, sqlite3.connect(self.target) as copy:
                source.backup(copy)
            source.close()
            copy.close()
            return
        self._run("pg_dump", "--format=custom", f"--file={self._dump}", self._source)

    def restore(self) -> None:
        if self._other is not None:
            # The role that reads behind the wall is no part of a dump: what is granted to it fails.
            self._run("pg_restore", f"--dbname={self.target}", str(self._dump), fails=1)

    def _run(self, program: str, *arguments: str, fails: int = 0) -> None:
        assert self._other is not None
        made = self._other._spawn(program, *arguments)
        assert made.wait() == fails, self._other._last_output()


async def _resume(engine: Engine) -> int:
    """All that was left is rescued and done, by a worker of now; how many jobs."""
    incarnation = (
        await engine.register(1, NewWorker(name="after", max_concurrent_jobs=1_000), 60)
    ).incarnation
    done = 0
    async with asyncio.timeout(60):
        while True:
            lapsed = await engine.lapsed(500)
            await engine.finish(
                [
                    Finish(one.fence, decide(one.attempt, one.outcome, one.policy, 0.5))
                    for one in lapsed
                ],
                lapsed=True,
            )
            await engine.stage(1_000)
            claimed = await engine.claim(Claim(incarnation, 500))
            lost = await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
            done += len(claimed) - len(lost)
            stats = await engine.stats([1])
            if not any(one.pending + one.scheduled + one.processing for one in stats):
                return done


async def _check(
    engine: Engine, before: Told, held: set[UUID], cursor: str
) -> tuple[list[str], int]:
    """What is wrong, and how many jobs the restored store went on with."""
    wrong = []
    told = sorted(before.inserted)
    there = {}
    for start in range(0, len(told), 500):
        there |= {job.id: job for job in await engine.get([1], told[start : start + 500])}
    wrong += [f"lost: {job}" for job in told if job not in there]
    for fence in before.finished:
        job = there.get(job_of(fence))
        if job is None or job.status is not JobStatus.SUCCEEDED or job.epoch != epoch_of(fence):
            wrong.append(f"lost: finish of {fence}")
    refused = await engine.finish([Finish(fence, ToSucceeded()) for fence in held])
    wrong += ["accepted from a lease of before"] * (len(held) - len(refused))
    for worker in await engine.workers([1]):
        try:
            await engine.renew(worker.incarnation, 60, Sample())
        except LeaseLost:
            continue
        wrong.append(f"the lease of {worker.name} goes on")
    done = await _resume(engine)
    seen: set[UUID] = set()
    while (events := await engine.events(cursor, 1_000)).items:
        cursor = events.cursor
        seen |= {
            job for event in events.items if event.topic == "job.succeeded" for job in event.jobs
        }
    wrong += [f"unread: {job_of(fence)}" for fence in before.finished if job_of(fence) not in seen]
    [last] = await engine.insert(1, [new_job("default", "work")])
    del last
    after = NewWorker(name="last", max_concurrent_jobs=10)
    incarnation = (await engine.register(1, after, 60)).incarnation
    claimed = await engine.claim(Claim(incarnation, 10))
    await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
    events = await engine.events(cursor, 1_000)
    now_seen = {job for event in events.items for job in event.jobs}
    wrong += ["unread: what was done last"] * (
        not {job_of(one.fence) for one in claimed} <= now_seen
    )
    return wrong, done


async def _o5(kind: str, tmp_path: Path, server_directory: Path, figure: Figure) -> list[str]:
    server_directory.chmod(0o755)
    if kind == "sqlite":
        save = Save(kind, str(tmp_path / "jobs.db"), tmp_path, None)
        before, held, cursor = await _back_up(kind, str(tmp_path / "jobs.db"), save)
        async with opened(kind, save.target) as engine:
            await engine.mark_restored()
            wrong, done = await _check(engine, before, held, cursor)
    else:
        settings = {"fsync": "off"}
        with (
            LocalServer.start(server_directory / "before", settings=settings) as source,
            LocalServer.start(
                server_directory / "after", settings=settings, binaries=source.binaries
            ) as other,
        ):
            save = Save(kind, source.url(), other.directory, other)
            before, held, cursor = await _back_up(kind, source.url(), save)
            await asyncio.to_thread(save.restore)
            async with opened(kind, other.url()) as engine:
                wrong, done = await _check(engine, before, held, cursor)
                [wall] = [one for one in await engine.examine() if one.subject == WALL]
                wrong += [wall.text] * (wall.level is not Severity.FINE)
    n = len(before.inserted) + len(before.finished)
    said = f"{len(wrong)} of {n:,}" if wrong else bound(n)
    figure(
        f"O5 {kind}: backup under load, restored elsewhere: wrong {said} acknowledged calls, "
        f"{len(held)} fences of before tried; {done:,} jobs left were done"
    )
    return wrong


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_o5_a_backup_is_restored_and_goes_on(
    kind: str, tmp_path: Path, server_directory: Path, figure: Figure
) -> None:
    assert await _o5(kind, tmp_path, server_directory, figure) == []


@pytest.mark.timeout(180)
async def test_o5_catches_a_twin_that_does_not_notice(
    tmp_path: Path, server_directory: Path, figure: Figure, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blind(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(Restores, "look", blind)
    wrong = await _o5("postgres", tmp_path, server_directory, figure)
    assert any(line.startswith("accepted") for line in wrong)
    assert any(line.startswith("unread") for line in wrong)
