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
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import UUID

import httpx2
import msgspec
import pytest

from taskforge import StoreUnavailable, TaskForge
from taskforge.sdk.jobs import JobFunction
from tests.chaos.fleet import Figure, Fleet, beside, bound, free_address
from tests.chaos.history import jobs
from tests.support.refusals import REFUSALS, Refusing

pytestmark = pytest.mark.rotates

RATE = {"sqlite": 100, "postgresql": 200}
DURATIONS = (0.01, 0.03, 0.1, 0.01, 0.02, 0.5)
BACK_WITHIN = 5.0
CALLERS = 3
Refusal = Callable[[], AbstractAsyncContextManager[None]]


class Callers:
    """Whoever enqueues, and goes on through every refusal, as an application would; and what they
    were told."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.told: Counter[str] = Counter()
        self.surprises: list[str] = []
        self.last_refused = 0.0
        self._forge = fleet.forge
        if fleet.served:
            # The server alone, on which this process would else have a look of its own.
            settings = msgspec.structs.replace(
                fleet.forge.settings, url=f"http://{fleet.served}", token=fleet._token
            )
            self._forge = TaskForge(settings=settings)

    async def enqueue(self, per_second: float) -> None:
        """Of ten jobs at a time; what was acknowledged is remembered."""
        handler = self._fleet.forge.registry.get("work")
        assert handler is not None
        work = JobFunction(self._forge, handler)
        number = 0
        while True:
            calls = [(DURATIONS[(number + index) % len(DURATIONS)],) for index in range(10)]
            number += 10
            try:
                handles = await work.enqueue_many(calls)
            except StoreUnavailable:
                self._refused("StoreUnavailable")
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                self.surprises.append(f"{type(error).__module__}.{type(error).__name__}: {error}")
            else:
                self.told["served"] += 1
                self._fleet.acknowledged |= {handle.id for handle in handles}
            await asyncio.sleep(10 / per_second)

    async def post(self) -> None:
        """Plain requests: what a server says while its store refuses."""
        headers = {"authorization": f"Bearer {self._fleet._token}"}
        body = {"queue": "default", "job_type": "work", "payload": {"seconds": 0.01}}
        async with httpx2.AsyncClient(
            base_url=f"http://{self._fleet.served}/api/v1", headers=headers, timeout=30
        ) as client:
            while True:
                try:
                    answer = await client.post("/jobs", json=body)
                except httpx2.HTTPError as error:
                    self.surprises.append(f"POST: {error!r}")
                else:
                    if answer.status_code == 201:
                        self._fleet.acknowledged.add(UUID(answer.json()["id"]))
                        self.told["201"] += 1
                    elif (
                        answer.status_code == 503
                        and answer.headers.get("retry-after", "").isdigit()
                    ):
                        self._refused("503 with Retry-After")
                    else:
                        self.surprises.append(f"POST: {answer.status_code} {answer.text[:200]}")
                await asyncio.sleep(0.1)

    def _refused(self, what: str) -> None:
        self.told[what] += 1
        self.last_refused = time.monotonic()

    async def were_refused(self) -> None:
        """Until somebody was, from now on."""
        since = time.monotonic()
        async with asyncio.timeout(20):
            while self.last_refused < since:
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        if self._forge is not self._fleet.forge:
            await self._forge.close()


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
