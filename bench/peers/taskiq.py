"""taskiq on a Redis stream. Its worker is `taskiq worker bench.peers.taskiq:broker`."""

import sys

import uvloop
from taskiq_redis import RedisStreamBroker  # type: ignore[import-not-found]

from bench.peers.tally import Tally, client, url

tally = Tally()
broker = RedisStreamBroker(url(), consumer_id="0", xread_count=100)


async def handle(stamp: int) -> None:
    tally.tick(stamp)


noop = broker.task(task_name="noop")(handle)


async def main(mode: str, count: int) -> None:
    await broker.startup()
    await client(mode, count, noop.kiq)
    await broker.shutdown()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
