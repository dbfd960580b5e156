"""What a handler can see and say while it runs."""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge import Context, Invalid, current_context
from taskforge.domain.custom_metrics import CustomFigures
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.execution import Beat, Execution, ExecutionStatus
from taskforge.domain.log import Level, Line, NewLine
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.ports.engine import is_store
from taskforge.worker.reporter import MOST_AT_ONCE, Reporter
from tests.support.crew import Crew, until
from tests.worker.handlers import add_to

logger = logging.getLogger("shop.checkout")


@pytest.fixture(autouse=True)
def _log_level() -> object:
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    yield
    logging.getLogger().setLevel(before)


async def test_a_handler_knows_its_job(crew: Crew) -> None:
    seen: list[object] = []

    @crew.forge.job(timeout=30, max_attempts=4, tags=("t",))
    async def look(ctx: Context, number: int) -> None:
        assert current_context() is ctx
        seen.append(
            (
                ctx.id,
                ctx.attempt,
                ctx.max_attempts,
                ctx.fencing_token,
                ctx.job.job_type,
                ctx.job.tags,
                ctx.cancelled,
            )
        )
        assert 29 < ctx.seconds_left <= 30

    await crew.start()
    handle = await look.enqueue(1)
    await handle.result(10)
    assert seen == [(handle.id, 1, 4, 1, "look", ("t",), False)]
    with pytest.raises(RuntimeError, match="no job is running here"):
        current_context()


async def test_the_fencing_token_rises_with_every_claim_and_the_deadline_counts(crew: Crew) -> None:
    crew.forge.queue("default", retry_delay_seconds=0.01)
    tokens: list[int] = []
    left: list[float] = []

    @crew.forge.job(timeout=100)
    async def again(ctx: Context) -> None:
        tokens.append(ctx.fencing_token)
        left.append(ctx.seconds_left)
        if ctx.attempt < 3:
            raise ValueError("again")

    await crew.start()
    await (await again.options(deadline=50).enqueue()).result(20)
    assert tokens == sorted(set(tokens))
    assert all(30 < one < 50 for one in left)


async def test_progress_is_seen_while_the_job_runs(crew_on_each: Crew) -> None:
    release = asyncio.Event()

    @crew_on_each.forge.job()
    async def long(ctx: Context) -> None:
        for step in range(100):
            ctx.progress(step / 200)
        ctx.progress(message="half way there")
        ctx.progress(0.5)
        await release.wait()

    await crew_on_each.start()
    handle = await long.enqueue()
    async with asyncio.timeout(10):
        while (await handle.job()).progress != 0.5:
            await asyncio.sleep(0.02)
    assert (await handle.job()).progress_message == "half way there"
    [execution] = await crew_on_each.executions(handle.id)
    assert execution.status == "running"
    release.set()
    await handle.result(10)


async def test_progress_that_could_not_be_told_is_told_later_and_undoes_nothing_newer() -> None:
    told: list[tuple[float | None, str | None]] = []

    class Source:
        async def beat(self, beats: Sequence[Beat]) -> list[UUID]:
            told.extend((one.progress, one.message) for one in beats)
            if len(told) == 1:
                reporter.progress(fence, 0.5, None)
                raise StoreUnavailable("away")
            return []

    source: Any = Source()
    fence, reporter = UUID(int=7), Reporter(source, list)
    reporter.progress(fence, 0.2, "on its way")
    with pytest.raises(StoreUnavailable):
        await reporter.flush()
    await reporter.flush()
    assert told == [(0.2, "on its way"), (0.5, "on its way")]


async def test_of_lines_that_a_store_took_in_part_the_rest_is_sent_again() -> None:
    taken: list[str] = []

    class Source:
        is_away = True

        async def log(self, lines: Sequence[NewLine]) -> list[UUID]:
            if taken and self.is_away:
                self.is_away = False
                raise StoreUnavailable("away")
            taken.extend(one.message for one in lines)
            return []

    source: Any = Source()
    reporter, said = Reporter(source, list), [str(number) for number in range(MOST_AT_ONCE + 5)]
    for text in said:
        reporter.line(NewLine(UUID(int=7), Level.INFO, text))
    with pytest.raises(StoreUnavailable):
        await reporter.flush()
    await reporter.flush()
    assert taken == said


async def test_bad_progress_levels_and_metrics_are_refused(crew: Crew) -> None:
    @crew.forge.job()
    async def careless(ctx: Context) -> int:
        wrong = 0
        for call in (
            lambda: ctx.progress(1.5),
            lambda: ctx.progress("half"),  # type: ignore[arg-type]
            lambda: ctx.log("x", level="loud"),
            lambda: ctx.log("x", what=object()),
            lambda: ctx.update_metrics("", 1),
            lambda: ctx.update_metrics("n", float("inf")),
        ):
            try:
                call()
            except Invalid:
                wrong += 1
        return wrong

    await crew.start()
    assert await (await careless.enqueue()).result(10) == 6


async def test_logging_of_a_handler_becomes_its_log(crew_on_each: Crew) -> None:
    forge = crew_on_each.forge

    @forge.job()
    async def talks(ctx: Context, name: str) -> None:
        logger.info("hello %s", name)
        await asyncio.sleep(0.01)
        try:
            raise KeyError("lost")
        except KeyError:
            logger.exception("it broke")
        ctx.log("by hand", level="debug", order=17)

    @forge.job()
    def talks_in_thread(name: str) -> None:
        logging.getLogger("thread").warning("from a thread: %s\x00", name)

    await crew_on_each.start()
    logger.info("outside of any job")
    one, two = await talks.enqueue("one"), await talks.enqueue("two")
    three = await talks_in_thread.enqueue("three")
    for handle in (one, two, three):
        await handle.result(10)
    for handle, name in ((one, "one"), (two, "two")):
        lines = _said(await crew_on_each.logs(handle.id))
        assert [(line.level, line.message.split("\n")[0]) for line in lines] == [
            (Level.INFO, f"hello {name}"),
            (Level.ERROR, "it broke"),
            (Level.DEBUG, "by hand"),
        ]
        assert "KeyError: 'lost'" in lines[1].message
        assert msgspec.json.decode(lines[2].metadata or b"") == {"order": 17}
    [line] = _said(await crew_on_each.logs(three.id))
    assert (line.level, line.message) == (Level.WARN, "from a thread: three␀")


async def test_lines_are_kept_once_however_many_workers_a_process_has(crew: Crew) -> None:
    @crew.forge.job()
    async def says() -> None:
        logging.getLogger("app").warning("once")

    first = await crew.start(upkeep=False)
    await crew.start(upkeep=False)
    handles = [await says.enqueue()]
    await crew.end(handles[0])
    await crew.stop(first)
    handles.append(await says.enqueue())
    await crew.end(handles[1])
    for handle in handles:
        assert [line.message for line in await crew.logs(handle.id)] == ["once"]


async def test_a_job_does_not_end_before_lines_that_are_on_their_way(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskforge.worker.reporter.FLUSH_SECONDS", 0.01)

    @crew.forge.job()
    async def talks() -> None:
        logger.info("hello")
        await asyncio.sleep(0.05)  # by now the line has been taken, and is not written

    source = (await crew.start()).reporter._source
    write = source.log

    async def slowly(lines: Any) -> Any:
        await asyncio.sleep(0.1)
        return await write(lines)

    monkeypatch.setattr(source, "log", slowly)
    for handle in [await talks.enqueue() for _ in range(3)]:
        await handle.result(10)
        assert [line.message for line in _said(await crew.logs(handle.id))] == ["hello"]


async def test_a_flood_of_lines_neither_blocks_nor_fills_the_memory(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskforge.worker.reporter.MOST_LINES", 100)

    @crew.forge.job()
    async def flood(ctx: Context) -> float:
        started = time.monotonic()
        for number in range(5_000):
            ctx.log(f"line {number}")
        return time.monotonic() - started

    await crew.start()
    handle = await flood.enqueue()
    assert await handle.result(10) < 2
    lines = await crew.logs(handle.id)
    assert [line.message for line in lines if "dropped" in line.message] == [
        "4,900 log lines were dropped: too many at once"
    ]
    assert len(_said(lines)) == 101


async def test_metrics_add_up(crew: Crew) -> None:
    @crew.forge.job()
    async def counts(ctx: Context) -> None:
        ctx.update_metrics("rows", 3)
        ctx.update_metrics("rows")

    worker = await crew.start()
    for handle in await counts.enqueue_many([(), ()]):
        await handle.result(10)
    await worker.reporter.flush_counts()

    engine = await crew.forge.engine()
    async with asyncio.timeout(20):
        while not (items := (await crew.forge.metrics.customs("counts", step=60)).items):
            await (engine.fold(100) if is_store(engine) else asyncio.sleep(0.1))
    [rows] = items
    assert (rows.job_type, rows.name) == ("counts", "rows")
    assert rows.totals == CustomFigures(count=4, sum=8.0, min=1.0, max=3.0, avg=2.0, last=1.0)
    assert sum(point.figures.sum for point in rows.series) == 8


async def test_heartbeats_keep_a_job_that_must_send_them(crew: Crew) -> None:
    crew.forge.queue("beating", heartbeat_timeout_seconds=0.6, max_retries=0)

    @crew.forge.job(queue="beating")
    async def alive(ctx: Context, beats: bool) -> str:
        for _ in range(12):
            await asyncio.sleep(0.1)
            if beats:
                await ctx.heartbeat()
        return "alive"

    await crew.start()
    silent, beating = await alive.enqueue(False), await alive.enqueue(True)
    assert await beating.result(10) == "alive"
    job = await crew.end(silent)
    assert job.error is not None
    assert job.error.type == "HeartbeatMissed"


async def test_a_silent_handler_is_shown_as_started_and_one_that_speaks_as_running(
    crew: Crew,
) -> None:
    done = asyncio.Event()

    @crew.forge.job()
    async def waits(ctx: Context, speaks: bool) -> None:
        if speaks:
            ctx.log("here I am")
        await done.wait()

    await crew.start()
    silent, speaking = await waits.enqueue(False), await waits.enqueue(True)
    seen: dict[bool, list[Execution]] = {False: [], True: []}
    async with asyncio.timeout(20):
        while not all(found and found[0].status != "queued" for found in seen.values()):
            await asyncio.sleep(0.02)
            seen = {
                False: await crew.executions(silent.id),
                True: await crew.executions(speaking.id),
            }
    [[quiet], [loud]] = seen.values()
    # That it started is its worker's word, and no heartbeat.
    assert (quiet.status, quiet.heartbeat_at) == (ExecutionStatus.STARTED, None)
    async with asyncio.timeout(20):
        while loud.status != "running":
            await asyncio.sleep(0.02)
            [loud] = await crew.executions(speaking.id)
    assert loud.started_at is not None
    for handle, execution in ((silent, quiet), (speaking, loud)):
        job = await handle.job()
        assert (job.started_at, job.worker_id) == (execution.started_at, execution.worker_id)
    [worker] = await (await crew.forge.engine()).workers([FIRST_PROJECT])
    assert (quiet.worker_id, quiet.worker_name) == (worker.id, worker.name)
    done.set()
    for handle in (silent, speaking):
        await crew.end(handle)
    assert [one.status for one in await silent.executions()] == ["succeeded"]
    said, end = await speaking.logs()
    assert (said.message, said.ended, end.ended) == ("here I am", None, "succeeded")
    assert await speaking.logs(after=said.id, limit=1) == [end]
    assert await speaking.logs("warn") == []
    assert await crew.forge.logs(speaking.id, execution=loud.id, offset=1) == [end]
    with pytest.raises(Invalid, match="use one of trace"):
        await speaking.logs("loud")


async def test_a_thread_sees_that_it_should_stop(crew: Crew) -> None:
    began, ended = threading.Event(), threading.Event()
    reasons: list[str | None] = []

    @crew.forge.job()
    def patient(ctx: Context) -> None:
        reasons.append(ctx.cancel_reason)
        began.set()
        while not ctx.cancelled:
            time.sleep(0.01)
        reasons.append(ctx.cancel_reason)
        ended.set()

    await crew.start()
    handle = await patient.enqueue()
    await until(began.is_set)
    await handle.cancel("enough")
    job = await crew.end(handle)
    assert (job.status, job.reason) == ("cancelled", "enough")
    await until(ended.is_set)
    assert reasons == [None, "enough"]


async def test_a_process_speaks_through_its_pipe(crew: Crew) -> None:
    add_to(crew.forge)
    worker = await crew.start()
    handler = crew.forge.registry.get("double")
    assert handler is not None
    from taskforge.sdk.jobs import JobFunction

    double: JobFunction[..., dict[str, int], ..., Any] = JobFunction(crew.forge, handler)
    counted: list[tuple[str, str, float]] = []
    worker.reporter.on_count = lambda *one: counted.append(one)
    handle = await double.enqueue(21, note="!")
    answer = await handle.result(20)
    assert answer.doubled == 42  # type: ignore[attr-defined]
    lines = _said(await crew.logs(handle.id))
    assert [(line.level, line.message) for line in lines] == [
        (Level.INFO, "doubling 21!"),
        (Level.WARN, "from the child"),
    ]
    assert counted == [("double", "doubled", 2)]
    again = await (await double.enqueue(1)).result(20)
    assert again.pid == answer.pid  # type: ignore[attr-defined] # the process is used again


def _said(lines: list[Line]) -> list[Line]:
    """Without the lines that the engine itself writes when an execution ends."""
    return [
        line
        for line in lines
        if not line.message.startswith(("succeeded", "failed", "cancelled", "retry"))
    ]
