"""Nodes: the processes of a cluster that reach the store themselves."""

import enum
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

# A node that was silent for so many of its heartbeats has left.
SILENT_BEATS = 3.0


class NodeRole(enum.StrEnum):
    SERVER = "server"
    WORKER = "worker"


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    roles: frozenset[NodeRole]
    address: str  # a server's URL; else the host's name
    host: str
    pid: int
    version: str
    beat_seconds: float

    @property
    def is_server(self) -> bool:
        return NodeRole.SERVER in self.roles


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    roles: frozenset[str]
    address: str
    host: str
    pid: int
    version: str
    beat_seconds: float
    joined_at: datetime
    seen_at: datetime
    upkeep: msgspec.Raw | None  # what it last said of its upkeep


class Leadership(msgspec.Struct, frozen=True):
    """Who leads, as it is shown; `node` is None between two leaders."""

    term: int
    node: UUID | None
    since: datetime


class ClusterState(msgspec.Struct, frozen=True):
    nodes: list[ClusterNode]
    leadership: Leadership
    now: datetime  # by the store's clock

    @property
    def leader(self) -> ClusterNode | None:
        return next((node for node in self.nodes if node.id == self.leadership.node), None)

    def is_silent(self, node: ClusterNode) -> bool:
        return node.seen_at + timedelta(seconds=SILENT_BEATS * node.beat_seconds) < self.now
