"""Tells now and then how projects fare: webhooks that ask for reports, and the log where the
setting `report_seconds` wants it."""

import logging
from datetime import datetime, timedelta

import msgspec

from taskforge.control.leader import Term
from taskforge.control.rounds import Rounds
from taskforge.domain.ids import IdMint
from taskforge.domain.snapshot import ProjectSnapshot
from taskforge.domain.webhook import MOST_WAITING, REPORT
from taskforge.operations.snapshots import take_snapshot
from taskforge.ports.engine import Engine
from taskforge.storage.records.webhook_deliveries import DeliveryRecords, NewDelivery

logger = logging.getLogger("taskforge.report")
LOOK_SECONDS = 2.0
AT_ONCE = 100
_encode = msgspec.json.Encoder().encode


class ProjectReporter(Rounds):
    def __init__(
        self, engine: Engine, log_seconds: float = 0.0, seconds: float = LOOK_SECONDS
    ) -> None:
        """`log_seconds`: how often the log tells of the engine's own project; 0: never."""
        super().__init__("reports", self._report, seconds)
        self._engine = engine
        self._deliveries = DeliveryRecords(engine)
        self._mint = IdMint()
        self._log_seconds = log_seconds
        self._logged_at: datetime | None = None

    async def _report(self, term: Term) -> bool:
        await self.write_log()
        return await self.report(term.number) == AT_ONCE

    async def report(self, term: int) -> int:
        """To the webhooks whose report is due, at most so many; how many those were."""
        now = await self._engine.now()
        due = await self._deliveries.due_reports(now, AT_ONCE)
        if not due:
            return 0
        snapshots = {
            project: await take_snapshot(self._engine, project)
            for project in {one.project for one in due}
        }
        reports = [
            NewDelivery(
                self._mint(),
                one.number,
                REPORT,
                _body(one.project_name, snapshots[one.project], now),
            )
            for one in due
            if one.waiting < MOST_WAITING
        ]
        next_at = [(one.number, now + timedelta(seconds=one.report_seconds)) for one in due]
        await self._deliveries.report(term, reports, next_at, now)
        return len(due)

    async def write_log(self) -> None:
        if not self._log_seconds:
            return
        now = await self._engine.now()
        rest = timedelta(seconds=self._log_seconds)
        if self._logged_at is not None and now < self._logged_at + rest:
            return
        self._logged_at = now
        told = await take_snapshot(self._engine, self._engine.home)
        logger.info(
            "%d active, %d completed, %d failed, %d in queues, %d scheduled, %d workers",
            *msgspec.structs.astuple(told),
        )


def _body(project: str, told: ProjectSnapshot, now: datetime) -> str:
    data = {"project": project, **msgspec.structs.asdict(told)}
    return _encode({"type": REPORT, "timestamp": now, "data": data}).decode()
