"""What mypy says about a user's code."""

import os
import re
import subprocess
import sys
from pathlib import Path

SNIPPET = """
from dataclasses import dataclass
from typing import Any
from taskforge import Context, CustomWorker, IncomingJob, Job, JobHandle, TaskForge
from taskforge.pool import WorkerPool

forge = TaskForge("sqlite:///jobs.db")


@forge.job(queue="emails")
async def send(to: str, count: int = 1) -> str:
    return to * count

@forge.job()
async def send_with_context(ctx: Context, to: str, *, count: int = 1) -> str:
    return to * count

@forge.job()
def plain(number: int) -> list[int]:
    return [number]

@forge.job(kind="process")
def plain_with_context(ctx: Context, number: int) -> float:
    return number / 2


@forge.job
async def bare(to: str) -> str:
    return to

@forge.job
def bare_with_context(ctx: Context, number: int) -> float:
    return number / 2


async def right() -> None:
    text: str = await (await send.enqueue("a", 2)).result(timeout=5)
    text = await (await send.enqueue(to="a")).result()
    text = await (await send_with_context.enqueue("a", count=3)).result()
    numbers: list[int] = await (await plain.enqueue(3)).result()
    half: float = await (await plain_with_context.enqueue(number=3)).result()
    handle: JobHandle[str] = await send.options(delay=5, unique="u").enqueue("b", count=2)
    handles: list[JobHandle[str]] = await send.enqueue_many([("a",), {"to": "b"}])
    scripted: JobHandle[list[int]] = forge.sync(plain.enqueue(3))
    await forge.enqueue_many([send.build("a"), plain.options(priority=3).build(4)])
    text = await (await bare.enqueue("a")).result()
    half = await (await bare_with_context.enqueue(3)).result()
    elsewhere: JobHandle[Any] = forge.handle(str(handle.id))


async def called_directly(ctx: Context) -> None:
    text: str = await send("a", count=2)
    text = await send_with_context(ctx, "a")
    numbers: list[int] = plain(3)
    half: float = bare_with_context(ctx, 3)
    await send(5)  # WRONG arg-type
    await send_with_context("a", "b")  # WRONG arg-type
    number: int = await bare("a")  # WRONG assignment
    other: str = plain(3)  # WRONG assignment


async def wrong() -> None:
    await send.enqueue(5)  # WRONG arg-type
    await send.enqueue("a", "many")  # WRONG arg-type
    await send.enqueue()  # WRONG call-arg
    await send.enqueue("a", cuont=1)  # WRONG call-arg
    await send_with_context.enqueue(5)  # WRONG arg-type
    await send_with_context.enqueue("a", count="b")  # WRONG arg-type
    await plain.enqueue("3")  # WRONG arg-type
    await plain_with_context.enqueue("3")  # WRONG arg-type
    await send.options(delay=5).enqueue(1)  # WRONG arg-type
    send.build(7)  # WRONG arg-type
    number: int = await (await send.enqueue("a")).result()  # WRONG assignment
    other: str = await (await plain.enqueue(1)).result()  # WRONG assignment
    await plain.options(priorty=3).enqueue(1)  # WRONG call-arg
    await bare.enqueue(5)  # WRONG arg-type
    await bare_with_context.enqueue("3")  # WRONG arg-type
    forge.job(qeue="emails")  # WRONG call-overload
    forge.job("emails")  # WRONG call-overload


@forge.add
class Resize(Job):
    queue = "images"
    max_attempts = 4
    height: int = 1
    width: int

    async def execute(self, ctx: Context) -> int:
        return self.width


async def classes() -> None:
    await forge.enqueue(Resize(width=3), delay=4)
    await forge.enqueue(Resize(width="3"))  # WRONG arg-type
    Resize(wide=3)  # WRONG call-arg
    Resize(3)  # WRONG call-arg


class Legacy(CustomWorker):
    async def process_job(self, job: IncomingJob, ctx: Context) -> str:
        return job.job_type


async def double(number: int) -> int:
    return 2 * number

def halve(number: int) -> float:
    return number / 2


async def pools(pool: WorkerPool, keep: bool) -> None:
    numbers: list[int] = await pool.map(double, [1])
    numbers = await pool.map(double, [1], return_exceptions=False)
    numbers = await pool.map(double, [1], return_exceptions=True)  # WRONG assignment
    numbers = await pool.map(double, [1], return_exceptions=keep)  # WRONG assignment
    both: list[int | BaseException] = await pool.map(double, [1], return_exceptions=True)
    halves: list[float] = await pool.map(halve, [1])
    halves = await pool.map(halve, [1], return_exceptions=True)  # WRONG assignment
"""
ROOT = Path(__file__).parents[2]


def test_wrong_arguments_to_enqueue_are_errors_and_right_ones_are_not(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(SNIPPET)
    shown = re.findall(
        r"^```python file=(\S+)\n(.*?)^```",
        (ROOT / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    for name, body in shown:
        (tmp_path / name).write_text(body)
    files = ["user.py", *(name for name, _ in shown)]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        os.devnull,
        "--cache-dir",
        str(tmp_path),
        *files,
    ]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    found = {
        (int(line), code)
        for line, code in re.findall(
            r"^user\.py:(\d+): error: .*\[(\S+)\]$", done.stdout, re.MULTILINE
        )
    }
    expected = {
        (number, line.rsplit(" ", 1)[1])
        for number, line in enumerate(SNIPPET.split("\n"), start=1)
        if "# WRONG" in line
    }
    assert found == expected, done.stdout
    assert not [
        line
        for line in done.stdout.splitlines()
        if " error: " in line and not line.startswith("user.py:")
    ]
