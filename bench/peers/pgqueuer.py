"""PgQueuer on asyncpg and uvloop, many jobs per statement."""

import os
import sys

import asyncpg
import uvloop
from pgqueuer import Queries, QueueManager  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver  # type: ignore[import-not-found]

from bench.peers.tally import Tally, client, url

CONNECTIONS = 6


async def work() -> None:
    tally = Tally()

    async def noop(job: object) -> None:
        payload: bytes | None = getattr(job, "payload", None)
        tally.tick(int(payload) if payload else 0)

    async with asyncpg.create_pool(url(), min_size=2, max_size=CONNECTIONS) as pool:
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))
        manager.entrypoint("noop")(noop)
        await manager.run(batch_size=int(os.environ["BENCH_BATCH"]))


async def main(mode: str, count: int) -> None:
    if mode == "worker":
        return await work()
    connection = await asyncpg.connect(url())
    queries = Queries(AsyncpgDriver(connection))

    async def single(stamp: int) -> None:
        await queries.enqueue("noop", str(stamp).encode() if stamp else None, 0)

    async def bulk(size: int) -> None:
        await queries.enqueue(["noop"] * size, [None] * size, [0] * size)

    if mode == "setup":
        await queries.install()
    else:
        await client(mode, count, single, bulk)
    return await connection.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
