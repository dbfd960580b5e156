"""A process under load, to be killed: enqueues, claims and finishes as fast as it can, and tells
what was acknowledged.

Run as `python load.py sqlite|postgres <path or url> <name> [hasty]`. Each line on standard output
is one acknowledged fact, written only after the engine answered: `I <job>` inserted, `F <fence>`
finished. A line is one write, so a kill leaves whole lines only. A hasty process tells before it
was answered, to be caught.
"""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.ids import IdMint
from taskforge.domain.job import Inserted, new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import Engine

LEASE_SECONDS = 1.0


def make(kind: str, target: str) -> Engine:
    if kind == "sqlite":
        from taskforge.storage.sqlite.engine import SqliteEngine

        return SqliteEngine(Path(target))
    from taskforge.storage.postgres.engine import PostgresEngine

    return PostgresEngine(target)


def tell(kind: str, identifier: object) -> None:
    os.write(1, f"{kind} {identifier}\n".encode())


async def enqueue_hastily(engine: Engine) -> None:
    mint = IdMint()
    while True:
        jobs = [msgspec.structs.replace(new_job("default", "work"), id=mint()) for _ in range(3)]
        for job in jobs:
            tell("I", job.id)
        await engine.insert(1, jobs)


async def enqueue(engine: Engine) -> None:
    while True:
        for answer in await engine.insert(
            1, [new_job("default", "work", "x" * 100) for _ in range(3)]
        ):
            assert isinstance(answer, Inserted)
            tell("I", answer.job)


async def work(engine: Engine, name: str) -> None:
    registered = await engine.register(1, NewWorker(name=name), LEASE_SECONDS)
    while True:
        try:
            claimed = await engine.claim(Claim(registered.incarnation, 5))
            # What need not be on disk is written beside what must be, over the same connections.
            await engine.beat([Beat(fence=one.fence, progress=0.5) for one in claimed])
            await engine.renew(registered.incarnation, LEASE_SECONDS, Sample())
        except LeaseLost:
            registered = await engine.register(1, NewWorker(name=name), LEASE_SECONDS)
            continue
        lost = {
            one.fence
            for one in await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
        }
        for one in claimed:
            if one.fence not in lost:
                tell("F", one.fence)


async def main(kind: str, target: str, name: str, manner: str = "") -> None:
    engine = make(kind, target)
    await engine.open()
    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(enqueue_hastily(engine) if manner == "hasty" else enqueue(engine))
            group.create_task(work(engine, f"{name}-{number}"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
