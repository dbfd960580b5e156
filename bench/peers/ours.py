"""TaskForge: an application with one handler that does nothing. Its worker is `taskforge worker
bench.peers.ours:forge`."""

import asyncio
import sys

import uvloop

from bench.peers.tally import WARM_UP, Tally, client, url
from taskforge import TaskForge

forge = TaskForge(url())
tally = Tally()


@forge.job()
async def noop(stamp: int) -> None:
    tally.tick(stamp)


async def single(stamp: int) -> None:
    await noop.enqueue(stamp)


async def bulk(count: int) -> None:
    await noop.enqueue_many([(0,)] * count)


async def within(count: int) -> None:
    """Worker and caller in one process, as with SQLite in an application that brings its own
    worker."""
    working = asyncio.create_task(forge.work())
    try:
        handles = [await noop.enqueue(0) for _ in range(WARM_UP)]
        await asyncio.gather(*(handle.result(timeout=30) for handle in handles))
        await client("pickup", count, single)
        await asyncio.sleep(0.5)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def main(mode: str, count: int) -> None:
    async with forge:  # connecting makes the tables: all that `setup` asks for
        if mode == "within":
            await within(count)
        elif mode != "setup":
            await client(mode, count, single, bulk)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
