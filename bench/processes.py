"""Processes that a benchmark starts: each leads a group of its own and ends, with all below it,
whatever happens here."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from taskforge.worker.processes.process_watch import die_with_parent

STOP_SECONDS = 5.0
ROOT = Path(__file__).resolve().parent.parent


class Failed(Exception):
    """A contender could not be installed, or did not do what it was told."""


async def start(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> asyncio.subprocess.Process:
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


async def end(processes: Sequence[asyncio.subprocess.Process]) -> None:
    """In order first, by force after a few seconds; what a process left behind in its group goes
    too."""
    for process in processes:
        if process.returncode is None:
            _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await asyncio.gather(*(process.wait() for process in processes))
    except TimeoutError:
        pass
    finally:
        for process in processes:
            _signal(process, signal.SIGKILL)
    await asyncio.gather(*(process.wait() for process in processes))


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@asynccontextmanager
async def running(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], log: Path
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    processes: list[asyncio.subprocess.Process] = []
    try:
        for command in commands:
            processes.append(await start(command, environment, log))  # noqa: PERF401 - a cancelled comprehension forgets them
        yield processes
    finally:
        await end(processes)


async def output(
    command: Sequence[str], environment: Mapping[str, str], seconds: float, folder: Path
) -> str:
    """What a command printed. Raises `Failed` with the end of that when it does not succeed in
    time."""
    log = folder / "output"
    log.unlink(missing_ok=True)
    async with running([command], environment, log) as (process,):
        try:
            async with asyncio.timeout(seconds):
                status: int | str = await process.wait()
        except TimeoutError:
            status = f"not done after {seconds:.0f} s"
    text = log.read_text(errors="replace")
    if status != 0:
        raise Failed(f"{' '.join(command[:4])} …: {status}: {tail(text)}")
    return text


def tail(text: str, characters: int = 600) -> str:
    return text.strip()[-characters:]
