"""The nodes of a cluster and who leads it."""

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.errors import NotFound
from taskforge.domain.node import SILENT_BEATS, ClusterNode, Leadership, NewNode
from taskforge.domain.query import CLUSTER
from taskforge.domain.term import Deposed, Reign
from taskforge.ports.records import Records, Step

_encode = msgspec.json.Encoder().encode


class SeenReign(msgspec.Struct, frozen=True):
    """The reign, and how many servers are there besides whoever looks."""

    term: int
    beat: int
    node: UUID | None
    lease_seconds: float
    servers: int

    @property
    def reign(self) -> Reign:
        return Reign(self.term, self.beat, self.node, self.lease_seconds)


def held(term: int) -> Step:
    """The first step of every write of a leader."""
    return Step("hold_term", (term,), partial(Deposed, term))


class ClusterRecords:
    def __init__(self, records: Records) -> None:
        self._records = records

    # --- Nodes ---

    async def beat(self, node: NewNode, upkeep: bytes | None = None) -> bool:
        """The node is there; whether it had to join, because it is new or was thought to have
        left."""
        now = await self._records.now()
        told = None if upkeep is None else upkeep.decode()
        [known] = await self._records.write([Step("beat_node", (node.id, now, told))])
        if known:
            return False
        values = (
            node.id,
            node.name,
            " ".join(sorted(node.roles)),
            node.is_server,
            node.address,
            node.host,
            node.pid,
            node.version,
            node.beat_seconds,
            now,
            told,
        )
        details = {"node": node.id, "name": node.name, "roles": sorted(node.roles)}
        await self._records.write([Step("add_node", values), _event("node.joined", details, now)])
        return True

    async def leave(self, node: NewNode) -> None:
        now = await self._records.now()
        [gone] = await self._records.write([Step("remove_node", (node.id,))])
        if gone:
            details = {"node": node.id, "name": node.name, "reason": "stopped"}
            await self._records.write([_event("node.left", details, now)])

    async def remove_silent(self, term: int) -> list[ClusterNode]:
        """Nodes that have said nothing for too long have left; the leader says so of these."""
        removed = []
        now = await self._records.now()
        silent = [
            node
            for node in await self.nodes()
            if node.seen_at + timedelta(seconds=SILENT_BEATS * node.beat_seconds) < now
        ]
        for node in silent:
            details = {"node": node.id, "name": node.name, "reason": "silent"}
            back = partial(NotFound, "silent node", node.name)
            steps = [
                held(term),
                Step("remove_silent_node", (node.id, node.seen_at), back),
                _event("node.left", details, now),
            ]
            with suppress(NotFound):  # it was heard of meanwhile
                await self._records.write(steps)
                removed.append(node)
        return removed

    async def nodes(self) -> list[ClusterNode]:
        return await self._records.look(ClusterNode, "nodes")

    # --- Leadership ---

    async def leadership(self) -> Leadership:
        [found] = await self._records.look(Leadership, "leadership")
        return found

    async def look(self, node: NewNode) -> SeenReign:
        """A server counts as long as it has not missed its second heartbeat."""
        since = await self._records.now() - timedelta(seconds=2 * node.beat_seconds)
        [found] = await self._records.look(SeenReign, "reign", node.id, since)
        return found

    async def take(self, node: NewNode, seen: Reign, lease_seconds: float) -> int | None:
        """Begin the next term, if all is still as it was seen; its number."""
        now = await self._records.now()
        term = seen.term + 1
        details = {"node": node.id, "name": node.name, "term": term}
        try:
            await self._records.write(
                [
                    Step(
                        "take_term",
                        (seen.term, seen.beat, node.id, lease_seconds, now),
                        partial(Deposed, term),
                    ),
                    _event("leader.changed", details, now),
                ]
            )
        except Deposed:
            return None
        return term

    async def renew(self, node: UUID, term: int) -> None:
        """Raises `Deposed` once another term has begun."""
        await self._records.write([Step("renew_term", (term, node), partial(Deposed, term))])

    async def resign(self, node: UUID, term: int) -> None:
        """Changes nothing once another term has begun."""
        await self._records.write([Step("resign_term", (term, node))])


def _event(topic: str, details: dict[str, Any], now: datetime) -> Step:
    return Step("add_event", (CLUSTER, topic, _encode(details).decode(), now))
