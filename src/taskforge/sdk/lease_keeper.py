"""The process that keeps a worker's lease: `python -m taskforge.sdk.lease_keeper`, started by the
worker, never by hand."""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain.outcome import HELD_UP
from taskforge.ports.engine import AnyEngine
from taskforge.telemetry.logs import start_logging
from taskforge.wiring import make_engine, work_source
from taskforge.worker.processes.keeper_words import LOST, Charge
from taskforge.worker.processes.lease import keep
from taskforge.worker.processes.process_watch import outlive_signals


async def main() -> int:
    # The worker itself says when the store has gone and when it is back.
    logging.getLogger("taskforge.store").setLevel(logging.ERROR)
    # Unbuffered: what follows the first line is for the keeper to read.
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) as unbuffered:
        charge = msgspec.json.decode(unbuffered.readline(), type=Charge)
    start_logging(charge.settings.log_format, level=logging.WARNING)
    settings = msgspec.structs.replace(charge.settings, pool_size=2)
    return 0 if await keep(lambda: make_engine(settings), charge, StoredEndings()) else LOST


class StoredEndings:
    """Ends jobs where they are stored, be that behind a server."""

    async def hand_back(self, engine: AnyEngine, incarnation: UUID, fences: Sequence[UUID]) -> None:
        await work_source(engine).hand_back(incarnation, fences, HELD_UP)

    async def time_out(
        self, engine: AnyEngine, incarnation: UUID, fence: UUID, seconds: float
    ) -> None:
        await work_source(engine).time_out(incarnation, fence, seconds)


if __name__ == "__main__":
    outlive_signals()
    sys.exit(asyncio.run(main()))
