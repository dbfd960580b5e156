"""A project as it is now."""

from taskforge.domain.snapshot import ProjectSnapshot, sum_up
from taskforge.ports.engine import Engine


async def take_snapshot(engine: Engine, project: int) -> ProjectSnapshot:
    return sum_up(await engine.stats([project]), await engine.workers([project]))
