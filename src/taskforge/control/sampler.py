"""Looks at queues and workers once a minute: how many jobs wait and for how long, and what workers
take of their machines; and counts the jobs that arrived. What it sees goes to the rollups."""

from taskforge.control.leader import Term
from taskforge.control.rounds import Rounds
from taskforge.domain.rollup import Gauge
from taskforge.domain.worker import WorkerStatus
from taskforge.ports.engine import Engine
from taskforge.storage.records.projects import Projects
from taskforge.storage.records.rollups import RollupRecords

LOOK_SECONDS = 60.0
PROJECTS_AT_ONCE = 20
_ALIVE = (WorkerStatus.ONLINE, WorkerStatus.DRAINING, WorkerStatus.UNHEALTHY)


class Sampler(Rounds):
    def __init__(self, engine: Engine, seconds: float = LOOK_SECONDS) -> None:
        super().__init__("sampler", self._sample, seconds)
        self._engine = engine
        self._projects = Projects(engine)
        self._rollups = RollupRecords(engine)

    async def _sample(self, term: Term) -> bool:
        await self.look(term.number)
        await self._rollups.count_arrivals(term.number, await self._engine.now())
        return False

    async def look(self, term: int) -> int:
        """How many queues and workers were seen: of queues only those in which jobs wait."""
        now = (await self._engine.now()).replace(second=0, microsecond=0)
        numbers = [project.number for project in await self._projects.all()]
        seen = 0
        for start in range(0, len(numbers), PROJECTS_AT_ONCE):
            part = numbers[start : start + PROJECTS_AT_ONCE]
            queues = {
                stats.queue_id: {
                    Gauge.PENDING: float(stats.pending),
                    Gauge.OLDEST_SECONDS: round(stats.oldest_pending_seconds or 0.0, 3),
                }
                for stats in await self._engine.stats(part)
                if stats.pending
            }
            workers = {
                worker.id: (
                    worker.project,
                    {
                        Gauge.CPU_PERCENT: worker.cpu_percent,
                        Gauge.MEMORY_BYTES: float(worker.memory_bytes or 0),
                    },
                )
                for worker in await self._engine.workers(part)
                if worker.cpu_percent is not None and worker.status in _ALIVE
            }
            seen += len(queues) + len(workers)
            await self._rollups.add_samples(term, now, queues, workers)
        return seen
