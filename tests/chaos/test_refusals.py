"""R16: a store that runs, and refuses: read-only, closed, renamed, its login refused, its
statements cancelled; a disk that is full, a file that is moved away. Under load nobody ends,
nothing is lost, no attempt is spent, and all are back by themselves."""

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from tests.chaos.callers import CALLERS, Callers
from tests.chaos.fleet import Figure, Fleet, beside, bound, free_address
from tests.chaos.history import jobs
from tests.support.refusals import REFUSALS, Refusing

pytestmark = pytest.mark.rotates

RATE = {"sqlite": 100, "postgresql": 200}
BACK_WITHIN = 5.0
Refusal = Callable[[], AbstractAsyncContextManager[None]]


async def _refuse(fleet: Fleet, callers: Callers, refusal: Refusal, seconds: float) -> float:
    """Refuse for so long from when the first caller was told; how long after that the first handler
    started."""
    async with refusal():
        await callers.were_refused()
        await asyncio.sleep(seconds)
    back = time.time()
    give_up = time.monotonic() + 4 * BACK_WITHIN
    while time.monotonic() < give_up:
        # What was claimed before and starts now is no sign of a store that serves: it must be of a
        # job that was made since.
        started = [
            line["at"]
            for line in fleet.history.lines("start")
            if line["at"] > back and _made(line["job"]) >= back
        ]
        if started:
            return float(min(started) - back)
        await asyncio.sleep(0.2)
    return time.time() - back


def _made(job: str) -> float:
    return (UUID(job).int >> 80) / 1000


async def _r16(
    fleet: Fleet, refusals: dict[str, Refusal], seconds: float, rounds: int, figure: Figure
) -> None:
    workers = [fleet.start(slots=20) for _ in range(2)]
    await fleet.ready()
    callers = Callers(fleet)
    rate = RATE[fleet.forge.settings.url.partition(":")[0]] / CALLERS
    took: list[float] = []
    loads = [callers.enqueue(rate) for _ in range(CALLERS)] + (
        [callers.post()] if fleet.served else []
    )
    try:
        async with beside(*loads):
            for refusal in [*refusals.values()] * rounds:
                await asyncio.sleep(max(1, seconds / 2))  # of load that is served
                took += [await _refuse(fleet, callers, refusal, seconds)]
            await asyncio.sleep(1)
    finally:
        await callers.close()
    in_time = await fleet.drained()
    ended = [
        process.pid
        for process in [*workers, *([fleet.server] if fleet.server else [])]
        if process.poll() is not None
    ]
    spent = [
        job
        for job in await jobs(await fleet.forge.engine(), fleet.acknowledged)
        if job.attempt_count != 1 or job.crash_count
    ]
    n, log = len(fleet.acknowledged), (fleet.folder / "workers.log").read_text()
    went, back = (
        log.count("the store does not serve, trying again"),
        log.count("the store serves again"),
    )
    lease = fleet.forge.settings.lease_seconds
    figure(
        f"R16 {fleet.label}: {rounds} × {', '.join(refusals)}, {seconds:g} s each, lease "
        f"{lease:g} s: {len(ended)} of "
        f"{len(workers) + (fleet.server is not None)} processes ended, lost {bound(n)}, accepted "
        f"twice {bound(n)}, attempts spent "
        f"{len(spent)} of {n:,}; callers were told {dict(callers.told)}; first handler "
        f"{max(took):.2f} s after at most "
        f"(limit {BACK_WITHIN:g} s); the log says {went} times that it went and {back} that "
        f"it is back"
    )
    assert callers.surprises == []
    assert ended == []
    assert await fleet.violations() == []
    assert in_time
    assert spent == []
    assert max(took) <= BACK_WITHIN, took
    assert "Traceback" not in log, log[log.index("Traceback") - 200 :][:4_000]
    assert "destroyed" not in log
    processes = len(workers) + (fleet.server is not None)
    assert 0 < went <= processes * len(refusals) * rounds, "one line when it goes, in each process"
    assert went - processes <= back <= went


# --- SQLite ---


@asynccontextmanager
async def _moved_away(path: Path) -> AsyncIterator[None]:
    away = path.with_name("away")
    away.mkdir(exist_ok=True)
    names = [path.name + end for end in ("", "-wal", "-shm")]
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            (path.parent / name).rename(away / name)
    yield
    for name in reversed(names):  # the file itself at last: whoever finds it finds its log
        with contextlib.suppress(FileNotFoundError):
            (away / name).rename(path.parent / name)


@asynccontextmanager
async def _full(disk: Path) -> AsyncIterator[None]:
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    yield
    filler.unlink()


@asynccontextmanager
async def _small_disk(folder: Path) -> AsyncIterator[bool]:
    """Whether one could be made; else the file is on the disk of all."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    made = (
        os.geteuid() == 0
        and shutil.which("mount") is not None
        and not subprocess.run(command, check=False).returncode
    )
    try:
        yield made
    finally:
        if made:
            subprocess.run(["umount", "-l", str(folder)], check=True)


# --- The rows ---


async def _row(
    kind: str,
    tmp_path: Path,
    postgres_url: str,
    seconds: float,
    rounds: int,
    figure: Figure,
    lease: float = 25.0,
) -> None:
    if kind == "sqlite":
        async with _small_disk(tmp_path / "disk") as is_small:
            path = tmp_path / "disk" / "jobs.db"
            refusals: dict[str, Refusal] = {"moved_away": lambda: _moved_away(path)}
            if is_small:
                refusals["full"] = lambda: _full(path.parent)
            async with Fleet(tmp_path, lease=lease, url=f"sqlite:///{path}") as fleet:
                await _r16(fleet, refusals, seconds, rounds, figure)
        return
    async with Refusing(postgres_url, f"r16_{secrets.token_hex(4)}") as database:
        served = free_address() if kind == "http" else ""
        async with Fleet(tmp_path, lease=lease, url=database.url, served=served) as fleet:
            named = {name: lambda name=name: database.refusal(name) for name in REFUSALS}
            await _r16(fleet, named, seconds, rounds, figure)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "http"])
async def test_r16_a_store_that_refuses(
    kind: str, tmp_path: Path, postgres_url: str, figure: Figure
) -> None:
    await _row(kind, tmp_path, postgres_url, 1.0, 1, figure)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "http"])
@pytest.mark.parametrize("lease", [25.0, 5.0])
async def test_r16_a_store_that_refuses_for_ten_seconds(
    kind: str, lease: float, tmp_path: Path, postgres_url: str, figure: Figure
) -> None:
    await _row(kind, tmp_path, postgres_url, 10, 1, figure, lease)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "http"])
async def test_r16_a_store_that_refuses_often(
    kind: str, tmp_path: Path, postgres_url: str, figure: Figure
) -> None:
    await _row(kind, tmp_path, postgres_url, 10, 20, figure)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("twin", ["lets the driver's errors out", "upkeep gives up"])
async def test_r16_catches_twins_that_a_refusal_ends(
    twin: str, tmp_path: Path, postgres_url: str, figure: Figure
) -> None:
    async with (
        Refusing(postgres_url, f"r16_{secrets.token_hex(4)}") as database,
        Fleet(tmp_path, twin=twin, lease=8.0, url=database.url) as fleet,
    ):
        worker = fleet.start(slots=4)
        await fleet.ready()
        await fleet.enqueue("work", *((0.1,) for _ in range(20)))
        async with database.read_only(), asyncio.timeout(30):
            while worker.poll() is None:
                await asyncio.sleep(0.1)
        figure(f"R16 twin ({twin}): its worker ended with status {worker.returncode}")
        assert worker.returncode != 0
