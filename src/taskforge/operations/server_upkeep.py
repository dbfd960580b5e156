"""What a server does beside answering: seals and prunes the audit log, notes which keys were used, forgets workers that ended."""

import asyncio

from taskforge.operations.gatekeeper import Gatekeeper
from taskforge.operations.upkeep import every, lasting
from taskforge.operations.worker_desk import WorkerDesk
from taskforge.storage.journal import SEALED_AT_ONCE, Journal

SEAL_SECONDS, USE_SECONDS, FORGET_SECONDS, PRUNE_SECONDS = 2.0, 20.0, 20.0, 600.0


class ServerUpkeep:
    def __init__(self, journal: Journal, gatekeeper: Gatekeeper, desk: WorkerDesk, *, audit_days: float) -> None:
        self._journal = journal
        self._gatekeeper = gatekeeper
        self._desk = desk
        self._audit_days = audit_days

    async def run(self) -> None:
        """Until cancelled. One that fails begins again by itself: a log that cannot be pruned is sealed all the same."""
        await asyncio.gather(
            lasting("sealing the audit log", lambda: every(SEAL_SECONDS, self._seal)),
            lasting("noting the use of keys", lambda: every(USE_SECONDS, self._gatekeeper.note_use)),
            lasting("forgetting workers that ended", lambda: every(FORGET_SECONDS, self._desk.forget_ended)),
            lasting("pruning the audit log", lambda: every(PRUNE_SECONDS, self._prune)),
        )

    async def _seal(self) -> None:
        sealed = SEALED_AT_ONCE
        while sealed == SEALED_AT_ONCE:
            sealed = await self._journal.seal()

    async def _prune(self) -> None:
        pruned = 1
        while pruned:
            pruned = await self._journal.prune(self._audit_days)
