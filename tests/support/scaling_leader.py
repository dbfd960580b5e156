"""A process that stands for election, looks after the store and scales queues while it leads."""

import asyncio
import signal
import sys

from taskforge.control.autoscaler import Autoscaler
from taskforge.control.leader import Leader
from taskforge.control.membership import Membership, this_node
from taskforge.control.sampler import Sampler
from taskforge.domain.node import NodeRole
from taskforge.node import make_upkeep, provider_maker
from taskforge.services import running
from taskforge.settings import Settings
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.wiring import make_store


async def lead(look_seconds: float) -> None:
    settings = Settings.load()
    engine = make_store(settings)
    await engine.open()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    node = this_node({NodeRole.SERVER}, None, settings.leader_seconds)
    cluster = ClusterRecords(engine)
    scaler = Autoscaler(engine, settings.providers, provider_maker(settings), look_seconds)
    leader = Leader(cluster, node, [scaler, Sampler(engine)], lease_seconds=settings.leader_seconds)
    upkeep = make_upkeep(engine, settings)
    assert upkeep is not None
    try:
        async with running([upkeep, Membership(cluster, node), leader]):
            await told.wait()
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(lead(float(sys.argv[1])))
