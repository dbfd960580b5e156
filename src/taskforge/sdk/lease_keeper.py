"""The process that keeps a worker's lease: `python -m taskforge.sdk.lease_keeper`, started by the worker, never by hand."""

import asyncio
import os
import sys

import msgspec

from taskforge.settings import Settings
from taskforge.wiring import make_engine
from taskforge.worker.lease import Charge, keep


async def main() -> None:
    # Unbuffered: what follows the first line is for the keeper to read.
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) as unbuffered:
        charge = msgspec.json.decode(unbuffered.readline(), type=Charge)
    engine = make_engine(Settings(url=charge.url, schema=charge.schema, pool_size=2))
    await engine.open(migrate=False)
    try:
        await keep(engine, charge)
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
