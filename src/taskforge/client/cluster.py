"""The cluster that a server elsewhere belongs to."""

from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.client.requests import get, reader
from taskforge.client.transport import Transport
from taskforge.domain.node import ClusterNode, ClusterState, Leadership


class _Node(msgspec.Struct, kw_only=True):
    id: UUID
    name: str
    roles: list[str]
    address: str
    host: str
    pid: int
    version: str
    beat_seconds: float
    joined_at: datetime
    seen_at: datetime
    services: msgspec.Raw = msgspec.Raw(b"null")

    def value(self) -> ClusterNode:
        fields = msgspec.structs.asdict(self)
        services = fields.pop("services").copy()
        fields["roles"] = frozenset(self.roles)
        return ClusterNode(**fields, upkeep=None if bytes(services) == b"null" else services)


class _Cluster(msgspec.Struct, kw_only=True):
    term: int
    leader: UUID | None
    since: datetime
    now: datetime
    nodes: list[_Node]


async def read_cluster(transport: Transport) -> ClusterState:
    found = await transport.send(get("/cluster", reader(_Cluster)))
    leadership = Leadership(found.term, found.leader, found.since)
    return ClusterState([node.value() for node in found.nodes], leadership, found.now)
