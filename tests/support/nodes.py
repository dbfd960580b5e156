"""Nodes for tests of the cluster."""

from uuid import uuid4

from taskforge.domain.node import NewNode, NodeRole


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
