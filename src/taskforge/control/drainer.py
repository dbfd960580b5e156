"""Workers that a scaling policy lets go: they are drained, stopped when they are empty, and kept
where an operator lets them take jobs again. One that its provider would not stop is tried again
later, and holds up nothing else of its queue."""

import contextlib
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from taskforge.control.leader import Term
from taskforge.control.providers.provider import Departing, Provider, ProviderFailed
from taskforge.control.scaling_points import entry_of
from taskforge.domain.assignment import Unassign
from taskforge.domain.errors import Conflict, NotFound
from taskforge.domain.queue_scaling import Drained, ScalingEntry, ScalingNews, ScalingState
from taskforge.domain.worker import UpdateWorker, Worker, WorkerStatus
from taskforge.operations.scaling_sight import SeenQueue
from taskforge.ports.engine import Engine

STOP_AGAIN_SECONDS = 30.0


class Drainer:
    """Of one look."""

    def __init__(self, engine: Engine, term: Term) -> None:
        self._engine = engine
        self._term = term
        self._is_refused = False
        self._unassigned: set[UUID] = set()

    async def begin(self, seen: SeenQueue, one: Drained) -> datetime:
        """By then the store knows that it takes no more jobs."""
        self._term.check()
        with contextlib.suppress(NotFound):
            change = UpdateWorker(worker=one.worker, drain_mode=True)
            await self._engine.change_worker(seen.queue.project, change)
        return await self._engine.now()

    async def end(
        self, seen: SeenQueue, state: ScalingState, provider: Provider, now: datetime
    ) -> tuple[ScalingState, tuple[ScalingEntry, ...]]:
        """Those that are still draining, and what is new."""
        left: list[Drained] = []
        entries: list[ScalingEntry] = []
        for one in state.draining:
            after, news, reason = await self._follow(seen, one, provider, now)
            if after is not None:
                left.append(after)
            if news is not None:
                entries.append(entry_of(seen, news, 1, None, reason, now, self._term.number))
        return msgspec.structs.replace(state, draining=tuple(left)), tuple(entries)

    async def _follow(
        self, seen: SeenQueue, one: Drained, provider: Provider, now: datetime
    ) -> tuple[Drained | None, ScalingNews | None, str]:
        """What it is now, if it is still draining, and what is new about it."""
        worker = seen.worker(one.worker)
        grace = timedelta(seconds=seen.scaling.policy.drain_grace_seconds)
        is_late = one.since + grace <= now
        # one that it would not stop is enough for a look
        is_due = not self._is_refused and (one.failed_at is None or _is_past(one.failed_at, now))
        if worker is None or worker.status is WorkerStatus.OFFLINE:
            if worker is not None and not is_late:  # its pod or machine may be there still
                if not is_due:
                    return one, None, ""
                if (error := await self._stop(provider, worker)) is not None:
                    return _refused(one, error, now)
            await self._unassign(seen, one)
            return None, ScalingNews.STOPPED, f"{one.name} was drained and has stopped"
        if one.told_at is None:
            return msgspec.structs.replace(one, told_at=await self.begin(seen, one)), None, ""
        if now <= one.told_at:  # what was seen is older
            return one, None, ""
        if not worker.drain_mode and one.stopped_at is None:
            reason = f"{one.name} was let take jobs again, and is kept"
            return None, ScalingNews.KEPT, reason
        is_due = is_due and (one.stopped_at is None or _is_past(one.stopped_at, now))
        if not is_due or not (worker.active_jobs == 0 or is_late):
            return one, None, ""
        if (error := await self._stop(provider, worker)) is not None:
            return _refused(one, error, now)
        stopped = msgspec.structs.replace(one, stopped_at=now, failed_at=None, error=None)
        return stopped, None, ""

    async def _stop(self, provider: Provider, worker: Worker) -> str | None:
        """Why the provider would not; None: it did."""
        self._term.check()
        try:
            await provider.stop(Departing.of(worker))
        except ProviderFailed as error:
            self._is_refused = True
            return str(error)
        return None

    async def _unassign(self, seen: SeenQueue, one: Drained) -> None:
        """Not the last one: the queue would be everybody's then."""
        if one.worker in seen.servants and len(seen.servants - self._unassigned) > 1:
            self._unassigned.add(one.worker)
            with contextlib.suppress(NotFound, Conflict):
                change = Unassign(seen.queue.id, one.worker)
                await self._engine.change_assignment(seen.queue.project, change)


def _refused(one: Drained, error: str, now: datetime) -> tuple[Drained, ScalingNews | None, str]:
    """It is told of once, as long as it is the same."""
    news = None if error == one.error else ScalingNews.FAILED
    failed = msgspec.structs.replace(one, failed_at=now, error=error)
    return failed, news, f"{one.name} was not stopped: {error}"


def _is_past(at: datetime, now: datetime) -> bool:
    return at + timedelta(seconds=STOP_AGAIN_SECONDS) <= now
