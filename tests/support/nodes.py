"""Nodes for tests of the cluster."""

from typing import Any
from uuid import uuid4

from taskforge.control.byte_counter import ByteCounter
from taskforge.domain.node import NewNode, NodeRole
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.storage.records.stored_bytes import StoredByteRecords


def a_node(name: str = "here", *roles: NodeRole, beat_seconds: float = 5.0) -> NewNode:
    return NewNode(
        id=uuid4(),
        name=name,
        roles=frozenset(roles or {NodeRole.SERVER}),
        address="http://127.0.0.1:8000",
        host="here",
        pid=1,
        version="0",
        beat_seconds=beat_seconds,
    )


async def count_bytes(engine: Any, records: StoredByteRecords | None = None) -> None:
    """What a leader does now and then, in one go."""

    async def no_rest(_: float) -> None: ...

    cluster = ClusterRecords(engine)
    term = await cluster.take(a_node(), (await cluster.look(a_node())).reign, 60.0)
    assert term is not None
    counter = ByteCounter(records or StoredByteRecords(engine), sleep=no_rest)
    while await counter.count_piece(term):
        pass
