"""T1 and T2: leaders that are killed, frozen or told to stop. Another leads within twice the lease,
nothing that a deposed leader writes is accepted, and each slot of each schedule makes one job."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import asyncpg
import msgspec
import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.job import new_job
from taskforge.domain.node import ClusterNode
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.query import FIRST
from taskforge.domain.queue import CreateQueue
from taskforge.domain.schedule import NewSchedule, Schedule, SlotOutcome, Timing, job_template
from taskforge.domain.worker import NewWorker
from taskforge.ports.engine import Engine
from taskforge.settings import Settings
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.storage.records.schedules import ScheduleRecords
from taskforge.wiring import make_store
from tests.chaos.fleet import ROOT, Figure, beside, bound, freeze
from tests.support.adhoc_statements import step_of

pytestmark = pytest.mark.rotates

LEASE = 2.0  # a busy machine takes longer than half a second to answer
CANDIDATES = 3
SCHEDULES = 50
PAGE = 500
# Behind a server only the server leads, which has a store itself.
ON_A_STORE = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)


class Electorate:
    """Candidates on one store, and what can be seen of them there."""

    def __init__(self, folder: Path, store: dict[str, str], *options: str, twin: str = "") -> None:
        values: dict[str, Any] = {**store, "leader_seconds": LEASE, "durable": False}
        self.settings = Settings.load(values)
        flags = {f"TASKFORGE_{name.upper()}": str(value) for name, value in values.items()}
        self._environment = {**os.environ, **flags, "CHAOS_TWIN": twin}
        self._options = options
        self._log = (folder / "candidates.log").open("ab")
        self.label = self.settings.url.partition(":")[0]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.engine: Engine = make_store(self.settings)
        self.cluster = ClusterRecords(self.engine)
        self.schedules = ScheduleRecords(self.engine)

    async def __aenter__(self) -> Self:
        await self.engine.open()
        for _ in range(CANDIDATES):
            self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        await self.engine.close()
        self._log.close()

    def start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.candidate", *self._options],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )
        self.processes[process.pid] = process

    async def leader(self, than: int = 0) -> tuple[int, ClusterNode]:
        """The first one of a later term than this, once it is there."""
        async with asyncio.timeout(60):
            while True:
                found = await self.cluster.leadership()
                if found.node is not None and found.term > than:
                    for node in await self.cluster.nodes():
                        if node.id == found.node and node.pid in self.processes:
                            return found.term, node
                await asyncio.sleep(0.02)

    def end(self, node: ClusterNode, number: int = signal.SIGKILL) -> None:
        process = self.processes[node.pid]
        process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait()
            del self.processes[node.pid]
            self.start()

    async def freeze(self, node: ClusterNode) -> None:
        """Not in the middle of a write: it would hold the lock that its successor needs, on
        PostgreSQL until the server ends its idle transaction after 10 s."""
        process = self.processes[node.pid]
        for _ in range(50):
            freeze(process, self.settings.url)
            if self.label == "sqlite" or not await self._is_locked():
                return
            process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.01)
        raise AssertionError("the leader is always in the middle of a write")

    async def _is_locked(self) -> bool:
        connection = await asyncpg.connect(self.settings.url)
        try:
            await connection.execute(
                f'select one from "{self.settings.schema}".leadership for update nowait'
            )
        except asyncpg.LockNotAvailableError:
            return True
        finally:
            await connection.close()
        return False

    async def writes_out_of_turn(self) -> tuple[int, int]:
        """How many writes there were, and how many of a term that was over."""
        after, writes, wrong, highest = FIRST, 0, 0, 0
        while page := (await self.engine.events(after, PAGE)).items:
            after = page[-1].cursor
            for event in page:
                if event.topic not in ("leader.changed", "test.written"):
                    continue
                term = msgspec.json.decode(event.details or "")["term"]
                wrong += term < highest
                highest = max(highest, term)
                writes += event.topic == "test.written"
        return writes, wrong


async def _t1(
    tmp_path: Path, store: dict[str, str], figure: Figure, rounds: int, twin: str = ""
) -> tuple[list[float], int, int]:
    """Depose so many leaders in turn: killed, frozen until another leads, or told to stop."""
    took = []
    async with Electorate(tmp_path, store, "writer", twin=twin) as electorate:
        term, node = await electorate.leader()
        for turn in range(rounds):
            await asyncio.sleep(0.3)
            number = (signal.SIGKILL, signal.SIGSTOP)[turn % 2]
            began = time.monotonic()
            if number == signal.SIGSTOP:
                await electorate.freeze(node)
            else:
                electorate.end(node, number)
            term, successor = await electorate.leader(term)
            took.append(time.monotonic() - began)
            if number == signal.SIGSTOP:
                await asyncio.sleep(0.3)
                electorate.end(node, signal.SIGCONT)  # it goes on where it was: in the middle
                await asyncio.sleep(0.5)
                electorate.end(node)
            node = successor
        writes, wrong = await electorate.writes_out_of_turn()
        figure(
            f"T1 {electorate.label}{' twin: ' + twin if twin else ''}: {rounds} leaders deposed, "
            f"the next after {max(took):.2f} s at most (limit {2 * LEASE:g} s), "
            f"accepted of a deposed one {_told(wrong, writes)} writes"
        )
    return took, writes, wrong


@ON_A_STORE
@pytest.mark.timeout(180)
async def test_t1_leaders(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    took, writes, wrong = await _t1(tmp_path, store, figure, 10)
    assert wrong == 0
    assert writes > 100
    assert max(took) < 2 * LEASE


@pytest.mark.long
@ON_A_STORE
async def test_t1_leaders_for_long(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    took, _, wrong = await _t1(tmp_path, store, figure, 500)
    assert wrong == 0
    assert max(took) < 2 * LEASE


@pytest.mark.timeout(180)
async def test_t1_catches_a_twin_without_the_term(tmp_path: Path, figure: Figure) -> None:
    store = {"url": f"sqlite:///{tmp_path}/jobs.db"}
    _, _, wrong = await _t1(tmp_path, store, figure, 6, twin="no fence")
    assert wrong > 0


async def _t2(
    tmp_path: Path, store: dict[str, str], figure: Figure, seconds: float, twin: str = ""
) -> tuple[int, list[str]]:
    """Schedules of every second, and a leader that is killed again and again; what is wrong."""
    async with Electorate(tmp_path, store, twin=twin) as electorate:
        engine, schedules = electorate.engine, electorate.schedules
        await engine.change_queue(1, CreateQueue(name="ticks"))
        made = [
            await schedules.create(1, _every_second(number), None) for number in range(SCHEDULES)
        ]
        end, kills, term = time.monotonic() + seconds, 0, 0
        while time.monotonic() < end:
            if twin:
                await asyncio.sleep(1)
                continue
            term, node = await electorate.leader(term)
            await asyncio.sleep(2.0)
            electorate.end(node)
            kills += 1
        if not twin:
            await electorate.leader(term)
        upto = await engine.now()
        await _until_fired(schedules, made, upto)
        for process in electorate.processes.values():
            process.kill()
            process.wait()
        wrong, slots, late = await _check(engine, schedules, made)
        figure(
            f"T2 {electorate.label}{' twin: ' + twin if twin else ''}: {SCHEDULES} schedules of "
            f"every second, {kills} leaders killed, wrong {_told(len(wrong), slots)} slots, "
            f"p99 of lateness {late:.2f} s"
        )
        return slots, wrong


def _told(wrong: int, n: int) -> str:
    return f"{wrong} of {n:,}" if wrong else bound(n)


def _every_second(number: int) -> NewSchedule:
    return NewSchedule(
        name=f"tick {number}",
        timing=Timing(cron="* * * * * *"),
        job=job_template("ticks", f"tick-{number}"),
    )


async def _kill_ten(tmp_path: Path, store: dict[str, str], figure: Figure, kills: int) -> None:
    """Leaders that are killed while jobs are enqueued, claimed and finished as fast as one process
    can: until the next one has fired a slot."""
    async with Electorate(tmp_path, store, "writer") as electorate:
        engine, schedules = electorate.engine, electorate.schedules
        await engine.change_queue(1, CreateQueue(name="ticks"))
        await engine.change_queue(1, CreateQueue(name="load"))
        made = [
            await schedules.create(1, _every_second(number), None) for number in range(SCHEDULES)
        ]
        took, term, done = [], 0, [0]
        async with beside(_work(engine, done)):
            for _ in range(kills):
                term, node = await electorate.leader(term)
                await asyncio.sleep(0.5)
                electorate.end(node)
                began = time.monotonic()
                term, _ = await electorate.leader(term)
                killed_at = await engine.now()
                await _until_fired(schedules, made, killed_at)
                took.append(time.monotonic() - began)
                term -= 1
            await electorate.leader(term)
        await _until_fired(schedules, made, await engine.now())
        for process in electorate.processes.values():
            process.kill()
            process.wait()
        wrong, slots, _ = await _check(engine, schedules, made)
        writes, late = await electorate.writes_out_of_turn()
        figure(
            f"{electorate.label}: {kills} leaders killed with {done[0]:,} jobs done beside: slots "
            f"fired again after {max(took):.2f} s at most (limit {2 * LEASE:g} s and the slot's "
            f"second), wrong {_told(len(wrong), slots)} slots, of deposed leaders accepted "
            f"{_told(late, writes)} writes"
        )
        assert wrong == []
        assert late == 0
        assert max(took) < 2 * LEASE + 1


async def _work(engine: Engine, done: list[int]) -> None:
    worker = await engine.register(
        1, NewWorker(name="busy", queues=("load",), max_concurrent_jobs=100), 60
    )
    while True:
        await engine.insert(1, [new_job("load", "work") for _ in range(20)])
        claimed = await engine.claim(Claim(worker.incarnation, 20))
        await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
        done[0] += len(claimed)
        await asyncio.sleep(0.02)


async def _until_fired(schedules: ScheduleRecords, made: list[Schedule], upto: Any) -> None:
    async with asyncio.timeout(60):
        while True:
            found = await schedules.schedules([1], limit=SCHEDULES)
            if all(one.next_at is not None and one.next_at > upto for one in found):
                return
            await asyncio.sleep(0.1)


async def _check(
    engine: Engine, schedules: ScheduleRecords, made: list[Schedule]
) -> tuple[list[str], int, float]:
    wrong: list[str] = []
    count, lateness = 0, []
    jobs = await engine.look(_Kind, step_of("select job_type, id from taskforge.jobs").statement)
    made_by = Counter(job.job_type for job in jobs)
    ids = {job.id for job in jobs}
    for number, schedule in enumerate(made):
        slots = list(reversed(await schedules.slots(schedule, limit=1_000)))
        count += len(slots)
        assert schedule.next_at is not None
        expected = [schedule.next_at + timedelta(seconds=second) for second in range(len(slots))]
        if [slot.at for slot in slots] != expected:
            wrong.append(f"{schedule.name}: slots are missing")
        if any(slot.outcome is not SlotOutcome.FIRED or slot.job not in ids for slot in slots):
            wrong.append(f"{schedule.name}: slots did not fire")
        if made_by[f"tick-{number}"] != len(slots):
            wrong.append(f"{schedule.name}: {made_by[f'tick-{number}']} jobs, {len(slots)} slots")
        lateness += [(slot.fired_at - slot.at).total_seconds() for slot in slots]
    lateness.sort()
    return wrong, count, lateness[int(0.99 * len(lateness))] if lateness else 0.0


class _Kind(msgspec.Struct, frozen=True):
    job_type: str
    id: UUID


@pytest.mark.timeout(180)
@ON_A_STORE
async def test_t2_slots(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    slots, wrong = await _t2(tmp_path, store, figure, 15)
    assert wrong == []
    assert slots > 10 * SCHEDULES


@pytest.mark.long
@ON_A_STORE
async def test_ten_leaders_are_killed_under_load(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    await _kill_ten(tmp_path, store, figure, 10)


@pytest.mark.long
@ON_A_STORE
async def test_t2_slots_for_a_minute(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    _, wrong = await _t2(tmp_path, store, figure, 60)
    assert wrong == []


@pytest.mark.timeout(180)
async def test_t2_catches_a_twin_whose_jobs_and_slots_are_apart(
    tmp_path: Path, figure: Figure
) -> None:
    store = {"url": f"sqlite:///{tmp_path}/jobs.db"}
    _, wrong = await _t2(tmp_path, store, figure, 5, twin="unfenced slots")
    assert wrong
