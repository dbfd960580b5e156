"""R8 and R9: what was acknowledged is on disk, whatever ends the process or the disk."""

import asyncio
import os
import random
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import Inserted, new_job
from taskforge.domain.queue import CreateQueue
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.engine_sqlite.processes import Child

KILLS = 40
LONG_KILLS = 1_000

WRITE = """
import asyncio, sys
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.domain.claim import Claim
from taskforge.storage.sqlite.engine import SqliteEngine

async def main():
    engine = SqliteEngine(sys.argv[1])
    await engine.open()
    if not await engine.queues([1]):
        await engine.change_queue(1, CreateQueue(name="default"))
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)

    async def caller():
        while True:
            answers = await engine.insert(1, [new_job("default", "work", "x" * 200)] * 3)
            print("".join(f"+{answer.job}\\n" for answer in answers), end="", flush=True)

    async def consumer():
        while True:
            claimed = await engine.claim(Claim(worker.incarnation, 20))
            ends = [Finish(one.fence, ToSucceeded()) for one in claimed]
            lost = {one.fence for one in await engine.finish(ends)}
            done = "".join(f"-{one.fence}\\n" for one in claimed if one.fence not in lost)
            print(done, end="", flush=True)

    await asyncio.gather(*(caller() for _ in range(8)), consumer())

asyncio.run(main())
"""


async def kill_and_check(path: Path, child: type[Child], kills: int) -> None:
    dice = random.Random(7)
    told: list[str] = []
    for _ in range(kills):
        writer = child(WRITE, path)
        told.append(await asyncio.to_thread(writer.line))
        rest = asyncio.create_task(asyncio.to_thread(writer.lines))
        await asyncio.sleep(dice.uniform(0.0, 0.15))
        writer.kill()
        told += await rest
        await asyncio.to_thread(writer.wait)
        made = sqlite3.connect(path)
        try:
            assert made.execute("pragma integrity_check").fetchall() == [("ok",)]
            stored = {UUID(bytes=job) for (job,) in made.execute("select id from jobs")}
            finished = {UUID(bytes=job) for (job,) in made.execute("select job from finished")}
            places = made.execute(
                "select count(*) from (select job from ready union all select job from waiting "
                "union all select job from running "
                "union all select job from finished)"
            ).fetchone()
        finally:
            made.close()
        added = {UUID(line[1:]) for line in told if line.startswith("+")}
        ended = {UUID(int=UUID(line[1:]).int >> 24 << 24) for line in told if line.startswith("-")}
        assert added <= stored, "an acknowledged job is lost"
        assert ended <= finished, "an acknowledged end is lost"
        assert places == (len(stored),)
    assert len(told) > kills
    print(f"R8: {kills} kills, {len(told)} acknowledgements, none lost")


@pytest.mark.rotates
async def test_a_killed_process_loses_nothing_it_acknowledged(
    path: Path, child: type[Child]
) -> None:
    await kill_and_check(path, child, KILLS)


@pytest.mark.long
async def test_many_killed_processes_lose_nothing(path: Path, child: type[Child]) -> None:
    await kill_and_check(path, child, LONG_KILLS)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="only root may mount a small disk"
)
async def test_a_full_disk_refuses_and_never_lies(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=False
    ).returncode:
        pytest.skip("mounting is not allowed here")
    engine = SqliteEngine(disk / "jobs.db")
    try:
        await engine.open()
        await engine.change_queue(1, CreateQueue(name="default"))
        told: set[UUID] = set()
        refused = 0

        async def caller() -> None:
            nonlocal refused
            while not refused:
                try:
                    answers = await engine.insert(1, [new_job("default", "work", "x" * 2_000)] * 5)
                except StoreUnavailable:
                    refused += 1
                else:
                    told.update(answer.job for answer in answers if isinstance(answer, Inserted))

        async with asyncio.timeout(60):
            await asyncio.gather(*(caller() for _ in range(8)))
        assert refused
        assert told
        stored = {job.id for start in _slices(sorted(told)) for job in await engine.get([1], start)}
        assert stored == told
        # Room again: the engine goes on without being opened anew.
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        assert isinstance((await engine.insert(1, [new_job("default", "work")]))[0], Inserted)
        pending = (await engine.stats([1]))[0].pending
        assert pending >= len(told) + 1
        await engine.close()
        made = sqlite3.connect(disk / "jobs.db")
        assert made.execute("pragma integrity_check").fetchall() == [("ok",)]
        made.close()
    finally:
        await engine.close()
        subprocess.run(["umount", disk], check=True)


def _slices(ids: list[UUID]) -> list[list[UUID]]:
    return [ids[start : start + 500] for start in range(0, len(ids), 500)]


INSERT_SOME = """
import asyncio, os, sys
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.domain.claim import Claim
from taskforge.storage.sqlite.engine import SqliteEngine

async def main():
    engine = SqliteEngine(sys.argv[1], durable=sys.argv[3] == "durable")
    await engine.open()
    if not await engine.queues([1]):
        await engine.change_queue(1, CreateQueue(name="default"))
    worker = await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    if sys.argv[4] == "standing":
        assert not await engine.claim(Claim(worker.incarnation, 1, standing=True))
    os.write(1, b"ready\\n")
    for number in range(int(sys.argv[2])):
        try:
            [answer] = await engine.insert(1, [new_job("default", "work", number)])
            os.write(1, f"+{answer.job}\\n".encode())
            if sys.argv[4] != "plain" or number % 2:
                stands, remote = sys.argv[4] == "standing", sys.argv[4] == "remote"
                claim = Claim(worker.incarnation, 1, standing=stands, remote=remote)
                [job, *_] = await engine.claim(claim)
                if claim.remote:
                    os.write(1, f"@{answer.job}\\n".encode())
                assert not await engine.finish([Finish(job.fence, ToSucceeded(None))])
                os.write(1, f"*{answer.job}\\n".encode())
                if sys.argv[4] == "standing":
                    assert not await engine.claim(Claim(worker.incarnation, 1, standing=True))
        except StoreUnavailable:
            os.write(1, b"refused\\n")
    await engine.close()

asyncio.run(main())
"""
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@needs_strace
@pytest.mark.parametrize(
    ("durable", "claims"),
    [
        ("durable", "plain"),
        ("durable", "standing"),
        ("durable", "remote"),
        ("quick", "plain"),
        ("quick", "standing"),
    ],
)
async def test_every_acknowledgement_comes_after_an_fsync(
    durable: str, claims: str, path: Path, tmp_path: Path, child: type[Child]
) -> None:
    count, trace = 100, tmp_path / "trace"
    under = (
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=fsync,fdatasync,write,pwrite64",
        "-e",
        "signal=none",
        "-s",
        "48",
        "-o",
        str(trace),
    )
    writer = child(INSERT_SOME, path, count, durable, claims, under=under)
    code, complaints = await asyncio.to_thread(writer.wait)
    assert (code, complaints) == (0, "")
    covered = acknowledged = 0
    synced = False
    for line in trace.read_text().splitlines():
        if re.search(r"write\(1, \"ready", line):
            synced, covered = False, 0
        elif re.search(r"(fsync|fdatasync)\b.*= 0", line):
            synced = True
        elif re.search(r"write\(1, \"[+*@]", line):
            acknowledged += 1
            covered += synced
            synced = False  # the next one needs an fsync of its own
    # A claim needs none, if its worker is on this machine and ends with it; what is finished does.
    count += {"plain": count // 2, "standing": count, "remote": 2 * count}[claims]
    assert acknowledged == count
    if durable == "durable":
        assert covered == count, (
            f"{count - covered} of {count} were acknowledged before their fsync"
        )
    else:
        assert covered < count // 2, "the trace would not notice a missing fsync"
    print(f"R9 ({durable}, {claims} claims): {covered}/{count} after an fsync")


@needs_strace
@pytest.mark.parametrize("claims", ["plain", "standing"])
async def test_an_fsync_that_fails_is_never_an_acknowledgement(
    claims: str, path: Path, child: type[Child]
) -> None:
    opened = child(INSERT_SOME, path, 0, "durable", "plain")
    assert await asyncio.to_thread(opened.wait) == (0, "")
    # From the 30th on every third fsync of the log fails.
    fault = "inject=fdatasync,fsync:error=EIO:when=30+3"
    under = (
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=fdatasync,fsync",
        "-e",
        fault,
        "-e",
        "signal=none",
        "-o",
        "/dev/null",
    )
    writer = child(INSERT_SOME, path, 150, "durable", claims, under=under)
    told = await asyncio.to_thread(writer.lines)
    code, complaints = await asyncio.to_thread(writer.wait)
    assert code == 0
    assert [line.partition(",")[0] for line in complaints.splitlines()] == [
        "the store does not serve"
    ], "told once"
    refused, added = (
        told.count("refused"),
        [UUID(line[1:]) for line in told if line.startswith("+")],
    )
    assert refused > 10
    assert len(added) > 10
    made = sqlite3.connect(path)
    try:
        assert made.execute("pragma integrity_check").fetchall() == [("ok",)]
        stored = {UUID(bytes=job) for (job,) in made.execute("select id from jobs")}
    finally:
        made.close()
    assert set(added) <= stored
