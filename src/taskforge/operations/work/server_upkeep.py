"""What a server does beside answering: seals and prunes the audit log and exports its head, notes
which keys were used, forgets workers that ended."""

from taskforge.operations.access.gatekeeper import Gatekeeper
from taskforge.operations.audit import AuditHeads
from taskforge.operations.work.worker_desk import WorkerDesk
from taskforge.services import Periodic, ServiceGroup, ServiceHealth
from taskforge.storage.records.audit_seals import SEALED_AT_ONCE, AuditSeals

SEAL_SECONDS, USE_SECONDS, FORGET_SECONDS, PRUNE_SECONDS = 2.0, 20.0, 20.0, 600.0
EXPORT_SECONDS = 300.0


class ServerUpkeep:
    name = "server upkeep"

    def __init__(
        self,
        seals: AuditSeals,
        heads: AuditHeads,
        gatekeeper: Gatekeeper,
        desk: WorkerDesk,
        *,
        audit_days: float,
    ) -> None:
        self._seals = seals
        self._audit_days = audit_days
        self._loops = ServiceGroup(
            self.name,
            [
                Periodic("sealing the audit log", self._seal, seconds=SEAL_SECONDS),
                Periodic(
                    "exporting the head of the audit log", heads.export, seconds=EXPORT_SECONDS
                ),
                Periodic("noting the use of keys", gatekeeper.note_use, seconds=USE_SECONDS),
                Periodic(
                    "forgetting workers that ended", desk.forget_ended, seconds=FORGET_SECONDS
                ),
                Periodic("pruning the audit log", self._prune, seconds=PRUNE_SECONDS),
            ],
        )

    async def run(self) -> None:
        """Until cancelled. Each loop goes on by itself: a log that cannot be pruned is sealed all
        the same."""
        await self._loops.run()

    async def run_once(self) -> object:
        return await self._loops.run_once()

    def health(self) -> list[ServiceHealth]:
        return self._loops.health()

    async def _seal(self) -> None:
        sealed = SEALED_AT_ONCE
        while sealed == SEALED_AT_ONCE:
            sealed = await self._seals.seal()

    async def _prune(self) -> None:
        pruned = 1
        while pruned:
            pruned = await self._seals.prune(self._audit_days)
