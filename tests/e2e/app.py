"""The application behind the browser tests: one job type for each thing that a page shows."""

import asyncio
import logging
from pathlib import Path

from taskforge.sdk.app import TaskForge
from taskforge.worker.context import Context

logger = logging.getLogger("e2e")
forge = TaskForge(grace_seconds=1.0)
forge.queue("default")
forge.queue("billing", dead_letter_queue="billing-dead", retry_delay_seconds=0.05)
forge.queue("billing-dead")
forge.queue("held", accept_while_paused=True)
forge.queue("hostile")


@forge.job(queue="default")
async def greet(name: str) -> dict[str, object]:
    logger.info("hello %s", name)
    return {"said": f"hello {name}", "number": 9007199254740993}


@forge.job(queue="default", timeout=60)
async def talk(ctx: Context, until: str) -> str:
    """Talks until a file is there, or it is cancelled."""
    number = 0
    while not Path(until).exists():
        number += 1
        logger.info("line %d of many", number)
        ctx.progress(min(0.9, number / 100), f"{number} lines")
        await asyncio.sleep(0.1)
    return "said enough"


@forge.job(queue="billing", max_attempts=1)
async def charge(order: int, mended: str) -> str:
    """Fails until a file is there."""
    if not Path(mended).exists():
        raise PermissionError(f"the card of order {order} was declined")
    return "paid"


@forge.job(queue="held")
async def wait_for_it() -> str:
    return "ran"


@forge.job(queue="hostile", max_attempts=1)
async def curse(words: str) -> str:
    """Logs, returns progress and fails with whatever it is given."""
    logger.warning("%s", words)
    raise ValueError(words)
