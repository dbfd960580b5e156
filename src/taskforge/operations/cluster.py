"""The cluster as its operators see it: the nodes, and who leads."""

import msgspec

from taskforge.domain.access import PLATFORM_ORGANIZATION, Principal
from taskforge.domain.node import ClusterNode, ClusterState
from taskforge.ports.engine import Engine
from taskforge.services import ServiceHealth
from taskforge.storage.records.cluster import ClusterRecords

_services = msgspec.json.Decoder(list[ServiceHealth])


def services_of(node: ClusterNode) -> list[ServiceHealth]:
    """How its services fare, as it last said."""
    return [] if node.upkeep is None else _services.decode(node.upkeep)


def may_see_cluster(principal: Principal) -> bool:
    """Nodes are no tenant's: those of the first organization run the platform."""
    return principal.organization == PLATFORM_ORGANIZATION


async def read_cluster(engine: Engine, principal: Principal | None = None) -> ClusterState:
    """As this principal may see it: without nodes, if it is a tenant's."""
    cluster = ClusterRecords(engine)
    leadership, now = await cluster.leadership(), await engine.now()
    if principal is not None and not may_see_cluster(principal):
        return ClusterState([], msgspec.structs.replace(leadership, node=None), now)
    return ClusterState(await cluster.nodes(), leadership, now)
