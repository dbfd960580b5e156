"""Says that this process is there, for as long as it is."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable

from taskforge.control.leader import Term
from taskforge.control.rounds import Rounds
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.ids import IdMint
from taskforge.domain.node import SILENT_BEATS, NewNode, NodeRole
from taskforge.services import ServiceHealth
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.version import __version__

logger = logging.getLogger("taskforge.cluster")
LEAVE_SECONDS = 2.0


def this_node(roles: Iterable[NodeRole], address: str | None, beat_seconds: float) -> NewNode:
    """Each start of a process is a node of its own."""
    host, pid = socket.gethostname(), os.getpid()
    return NewNode(
        id=IdMint()(),
        name=f"{host}-{pid}",
        roles=frozenset(roles),
        address=address or host,
        host=host,
        pid=pid,
        version=__version__,
        beat_seconds=beat_seconds,
    )


class Membership:
    name = "membership"

    def __init__(
        self,
        cluster: ClusterRecords,
        node: NewNode,
        tell: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        """`tell`: what the node says of itself with each heartbeat."""
        self._cluster = cluster
        self._node = node
        self._tell = tell
        self._seen_at: float | None = None

    async def run(self) -> None:
        """Until cancelled; then it leaves."""
        try:
            while True:
                try:
                    await self.run_once()
                except StoreUnavailable as error:
                    await asyncio.sleep(min(error.retry_after, self._node.beat_seconds))
                    continue
                except Exception:  # jobs run without a place in the cluster: it ends no process
                    logger.exception("the heartbeat of the node failed, and is tried again")
                await asyncio.sleep(self._node.beat_seconds)
        finally:
            if self._seen_at is not None:
                with contextlib.suppress(StoreUnavailable, TimeoutError):
                    async with asyncio.timeout(LEAVE_SECONDS):
                        await self._cluster.leave(self._node)

    async def run_once(self) -> None:
        """One heartbeat."""
        if await self._cluster.beat(self._node, self._tell()) and self._seen_at is not None:
            logger.warning("%s was thought to have left, and is back", self._node.name)
        self._seen_at = time.monotonic()

    def health(self) -> list[ServiceHealth]:
        passed = None if self._seen_at is None else time.monotonic() - self._seen_at
        late = (passed or 0.0) > SILENT_BEATS * self._node.beat_seconds
        return [ServiceHealth(self.name, passed, is_late=late)]


class RollCall(Rounds):
    """The leader's part: nodes that are silent have left."""

    def __init__(self, cluster: ClusterRecords, seconds: float) -> None:
        super().__init__("roll call", self._call, seconds)
        self._cluster = cluster

    async def _call(self, term: Term) -> bool:
        for node in await self._cluster.remove_silent(term.number):
            logger.warning("node %s is silent and has left", node.name)
        return False
