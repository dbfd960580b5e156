"""What an end brings about, looked at: the table of docs/design/endings.md, one job with everything
that an end could touch, and a look for each column of the table."""

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, EditJob, JobChange, RetryJob
from taskforge.domain.errors import EventsGone
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed, JobStatus, Refused
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import Outcome, SkipOutcome
from taskforge.domain.query import JobFilter
from taskforge.domain.queue import QueueChange
from taskforge.domain.worker import Registered
from taskforge.operations.work.completion import Ended, complete
from tests.support.world import World

PAGE = Path(__file__).parents[2] / "docs" / "design" / "endings.md"
NOTHING = "–"
QUEUE = "ends"
LONG = 1e8  # longer than anything is kept
STATUSES = tuple(ExecutionStatus)


def read_table() -> dict[str, dict[str, str]]:
    """The cells of the page: way to end → effect → what comes of it."""
    text = PAGE.read_text(encoding="utf-8").partition("## The table")[2]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    head, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    table = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}
    assert len(table) == len(rows), "a way stands in the table twice"
    return table


class Scene:
    """A job in a queue whose limiter learns, under both kinds of key, with a tag, a line in its log
    and a worker that has skipped it."""

    def __init__(self, world: World, job: UUID, picky: Registered, start: str) -> None:
        self.world, self.job, self.picky, self.start = world, job, picky, start
        self.jobs = [job]
        self.worker: Registered | None = None
        self.claimed: Claimed | None = None

    @classmethod
    async def make(cls, world: World, settings: dict[str, Any], options: dict[str, Any]) -> "Scene":
        dead = await world.queue("dead")
        if settings.pop("buries", False):
            settings["dead_letter_queue_id"] = str(dead.id)
        adaptive = {"rate_limit": 6_000, "rate_limit_algorithm": "adaptive"}
        await world.queue(QUEUE, **adaptive, **settings)
        picky = await world.online_worker("picky", lease=LONG, queues=(QUEUE, "dead"))
        keys = {"unique_key": "unique", "idempotency_key": "idempotency"}
        job = await world.enqueue(QUEUE, payload={"a": 1}, tags=["tag"], **keys, **options)
        start = (await world.engine.events(None, 1)).cursor
        scene = cls(world, job, picky, start)
        await scene.claim(picky)
        assert scene.claimed is not None
        await world.engine.log([NewLine(scene.claimed.fence, Level.INFO, "too large for me")])
        await scene.report(SkipOutcome("not mine"))
        return scene

    async def claim(self, worker: Registered | None = None) -> None:
        self.worker = worker or await self.world.online_worker(lease=LONG)
        self.world.clock.advance(0.1)  # a dead letter stands behind all that is there now
        self.claimed = await self.world.claim_one(self.worker)
        assert job_of(self.claimed.fence) == self.job

    async def report(self, outcome: Outcome) -> None:
        """What a worker does when its handler is through."""
        assert self.claimed is not None
        ended = Ended.of(self.claimed, outcome, 1.5)
        assert await complete(self.world.engine, [ended], lambda: 0.5) == []

    async def schedule(self) -> None:
        assert isinstance(await self.world.change(self.job, EditJob(at=600.0)), Changed)

    async def change(self, change: JobChange) -> None:
        """What an operator does, to all jobs of the scene at once."""
        answers = await self.world.engine.change(
            [1], self.jobs, change, Note("ada", "job.change", 1)
        )
        assert all(isinstance(answer, Changed) for answer in answers), answers

    async def change_queue(self, change: QueueChange) -> None:
        await self.world.engine.change_queue(1, change, Note("ada", "queue.change", 1))

    async def queue_id(self) -> UUID:
        return (await self.world.job(self.job)).queue_id


# --- The columns: what is there, as words that are counted ---


async def see_status(scene: Scene) -> Counter[str]:
    return Counter(str(job.status) for job in await scene.world.engine.get([1], scene.jobs))


async def see_facts(scene: Scene) -> Counter[str]:
    jobs = await scene.world.engine.get([1], scene.jobs)
    known = ("completed_at", "result", "error", "reason", "payload", "cancel_requested")
    return Counter(
        name for job in jobs for name in known if getattr(job, name) not in (None, False)
    )


async def see_executions(scene: Scene) -> Counter[str]:
    found: Counter[str] = Counter()
    for job in scene.jobs:
        executions = await scene.world.engine.executions([1], job)
        found.update(str(one.status) for one in executions if one.finished_at is not None)
    return found


async def see_logs(scene: Scene) -> Counter[str]:
    """The lines of a job's log: what was logged, and what ends leave there."""
    found: Counter[str] = Counter()
    for job in scene.jobs:
        lines = await scene.world.engine.logs(
            [1], job, least=Level.TRACE, after=0, limit=100, offset=0
        )
        found.update("line" if line.ended is None else str(line.ended) for line in lines)
    return found


async def see_tallies(scene: Scene) -> Counter[str]:
    rows = await scene.world.probe.rows(
        "select status, sum(count) from (select status, count from tallies union all "
        "select status, count from tally_deltas) as t group by status"
    )
    return +Counter({str(tuple(JobStatus)[code]): int(count) for code, count in rows})


async def see_events(scene: Scene) -> Counter[str]:
    found: Counter[str] = Counter()
    cursor, events = scene.start, None
    try:
        while events != []:
            heard = await scene.world.engine.events(cursor, 1_000)
            cursor, events = heard.cursor, heard.items
            found.update(one.topic for one in events for job in one.jobs if job in scene.jobs)
    except EventsGone:  # pruned
        pass
    return found


async def see_rollups(scene: Scene) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, status), count in (await scene.world.probe.rollups()).items():
        found[str(STATUSES[status])] += count
    return found


async def see_failures(scene: Scene) -> Counter[str]:
    """Attempts that are counted, and the jobs that are found by the group of their failure."""
    rows = await scene.world.probe.rows("select failure, count, job_type from failure_deltas")
    assert {row[2] for row in rows} <= {"work"}
    groups = {_uuid(row[0]) for row in rows}
    rows += await scene.world.probe.rows("select failure, 0, '' from finished")
    groups |= {_uuid(row[0]) for row in rows if row[0] is not None}
    found = 0
    for group in groups:
        wanted = JobFilter(failure_group=group)
        found += (await scene.world.engine.count_jobs([1], wanted)).count
    return +Counter(counted=sum(int(row[1]) for row in rows), job=found)


def _uuid(column: Any) -> UUID:
    return UUID(bytes=column) if isinstance(column, bytes) else column


async def see_totals(scene: Scene) -> Counter[str]:
    totals = await scene.world.engine.worker_totals([1])
    completed, failed = (
        sum(getattr(one, name) for one in totals) for name in ("completed", "failed")
    )
    return +Counter(completed=completed, failed=failed)


async def see_news(scene: Scene) -> Counter[str]:
    rows = await scene.world.probe.rows("select good, bad from gate_deltas")
    return +Counter(good=sum(row[0] for row in rows), bad=sum(row[1] for row in rows))


async def see_keys(scene: Scene) -> Counter[str]:
    rows = await scene.world.probe.rows("select scope, job from keys")
    return Counter(("unique", "idempotency")[scope] for scope, job in rows if job in scene.jobs)


async def see_tags(scene: Scene) -> Counter[str]:
    return +Counter(tag=await scene.world.probe.count("job_tags"))


async def see_origin(scene: Scene) -> Counter[str]:
    jobs = await scene.world.engine.get([1], scene.jobs)
    return Counter(job.origin_queue for job in jobs if job.origin_queue is not None)


async def see_audit(scene: Scene) -> Counter[str]:
    return +Counter(entry=await scene.world.probe.count("audit"))


EFFECTS: dict[str, Callable[[Scene], Awaitable[Counter[str]]]] = {
    "status": see_status,
    "facts": see_facts,
    "execution": see_executions,
    "log": see_logs,
    "tally": see_tallies,
    "event": see_events,
    "rollup": see_rollups,
    "failure": see_failures,
    "worker total": see_totals,
    "limiter": see_news,
    "keys": see_keys,
    "tags": see_tags,
    "origin": see_origin,
    "audit": see_audit,
}
AFTERWARDS = "retried"


async def look(scene: Scene) -> dict[str, Counter[str]]:
    return {name: await see(scene) for name, see in EFFECTS.items()}


def tell(before: Counter[str], after: Counter[str]) -> str:
    """What is different, in the words of the table."""
    gone, come = _words(before - after), _words(after - before)
    if gone and come:
        return f"{gone} → {come}"
    return f"+{come}" if come else f"-{gone}" if gone else NOTHING


def _words(counts: Counter[str]) -> str:
    return ", ".join(
        name if number == 1 else f"{number} {name}" for name, number in sorted(counts.items())
    )


async def retry(scene: Scene) -> str:
    """Whether a job that has ended can be run again, and by whom: who skipped it may have it."""
    [answer] = await scene.world.engine.change([1], [scene.job], RetryJob())
    if isinstance(answer, Refused):
        return "refused"
    taken = [job_of(one.fence) for one in await scene.world.claim(scene.picky)]
    return "by anyone" if scene.job in taken else "not by who skipped it"
