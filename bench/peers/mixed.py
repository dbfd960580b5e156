"""TaskForge under a mixed load: 20 types in five queues, one of them limited, 1 KB payloads, one
job in 20 fails at first.

Its worker is `taskforge worker bench.peers.mixed:forge`. `head COUNT` enqueues jobs of types that
nobody handles, `bulk COUNT` the load itself.
"""

import os
import sys
import time

import uvloop

from bench.peers.tally import BATCH, Tally, tell, url
from taskforge import Context, TaskForge
from taskforge.domain.job import NewJob, new_job

QUEUES = tuple(f"mixed-{number}" for number in range(5))
TYPES = tuple(f"kind-{number}" for number in range(20))
NOBODYS = tuple(f"nobodys-{number}" for number in range(5))
TEXT = "x" * 1_000

forge = TaskForge(url())
tally = Tally()
for name in QUEUES:
    limit = int(os.environ["BENCH_LIMIT"]) if name == QUEUES[-1] else None
    forge.queue(name, max_concurrent_jobs=limit, retry_delay_seconds=0.1)


async def mixed(ctx: Context, number: int, text: str) -> int:
    tally.tick()
    if number // len(TYPES) % 20 == 0 and ctx.attempt == 1:
        raise ValueError(f"no such customer: {number}")
    return len(text)


for job_type in TYPES:
    forge.job(job_type=job_type, queue=QUEUES[0])(mixed)


def jobs(types: tuple[str, ...], numbers: range) -> list[NewJob]:
    return [
        new_job(QUEUES[number % 5], types[number % len(types)], {"number": number, "text": TEXT})
        for number in numbers
    ]


async def main(mode: str, count: int) -> None:
    async with forge:
        started = time.perf_counter()
        for start in range(0, count, BATCH):
            await forge.insert_many(
                jobs(NOBODYS if mode == "head" else TYPES, range(start, min(start + BATCH, count)))
            )
        tell(count, time.perf_counter() - started)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
