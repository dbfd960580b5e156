"""What moves between two looks at it: the second look finds out, and nothing is done to what is no
longer there."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from taskforge.domain.changes import EditJob
from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import Inserted, JobStatus, new_job
from taskforge.domain.log import Level, Line, NewLine
from taskforge.domain.outcome import (
    MISFIT_SECONDS,
    Finish,
    ToHandBack,
    ToMisfit,
    ToRetry,
    ToSkipped,
)
from taskforge.domain.queue import CreateQueue, DeleteQueue
from taskforge.domain.worker import NewWorker, Sample
from taskforge.storage.postgres import queues
from taskforge.storage.postgres.claim_window import SLOW_IN_A_ROW
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.worker.processes.process_id import this_process
from taskforge.worker.processes.survivor import tell_death
from tests.support.world import ERROR, Clock


async def test_a_job_that_is_claimed_between_two_statements_is_explained_anew(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await engine.register(1, NewWorker(name="able", types=("send",)), 60)
    await engine.register(1, NewWorker(name="other", types=("other",)), 60)
    [inserted] = await engine.insert(1, [new_job("emails", "send")])
    assert isinstance(inserted, Inserted)
    right, claimed = engine._reads.find_jobs, []

    async def slow(*arguments: Any) -> Any:
        found = await right(*arguments)
        if not claimed:
            claimed.extend(await engine.claim(Claim(worker.incarnation, 1)))
        return found

    monkeypatch.setattr(engine._reads, "find_jobs", slow)
    found = await engine.explain([1], inserted.job)
    assert len(claimed) == 1
    assert [reason.code for reason in found.reasons] == ["running"]


async def test_a_line_that_comes_while_its_job_ends_is_reported_lost(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    """The end is not committed yet: the line waits for it, and does not land behind it."""
    [inserted] = await engine.insert(1, [new_job("emails", "send")])
    assert isinstance(inserted, Inserted)
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    [claimed] = await engine.claim(Claim(worker.incarnation, 1))
    await engine.log([NewLine(claimed.fence, Level.INFO, "in time")])
    async with connection.transaction():
        await connection.execute(f"delete from {schema}.running where fence = $1", claimed.fence)
        late = asyncio.create_task(engine.log([NewLine(claimed.fence, Level.INFO, "late")]))
        async with asyncio.timeout(10):
            while not late.done() and not await connection.fetchval(
                "select count(*) from pg_locks where not granted"
            ):
                await asyncio.sleep(0.005)
    assert [one.fence for one in await late] == [claimed.fence]
    lines = await engine.logs([1], inserted.job, least=Level.TRACE, after=0, limit=10, offset=0)
    assert [line.message for line in lines] == ["in time"]


async def test_whoever_reads_a_log_in_pages_misses_no_end_that_comes_meanwhile(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end, and the first line of the next execution, come between one statement of a page and
    the next."""
    [inserted] = await engine.insert(1, [new_job("emails", "send")])
    assert isinstance(inserted, Inserted)
    worker = await engine.register(1, NewWorker(name="w"), 60)
    [first] = await engine.claim(Claim(worker.incarnation, 1))
    await engine.log([NewLine(first.fence, Level.INFO, "one")])
    reading = engine.connections.reading

    async def go_on() -> None:
        await engine.finish([Finish(first.fence, ToRetry(0.0, ERROR))])
        [second] = await engine.claim(Claim(worker.incarnation, 1))
        await engine.log([NewLine(second.fence, Level.INFO, "two")])

    @asynccontextmanager
    async def slow(projects: Sequence[int]) -> AsyncIterator[Any]:
        async with reading(projects) as connection:

            async def fetch(*arguments: Any) -> Any:
                rows = await connection.fetch(*arguments)
                if patched:
                    patched.clear()
                    await go_on()
                return rows

            yield SimpleNamespace(fetch=fetch)

    patched = [True]
    monkeypatch.setattr(engine.connections, "reading", slow)
    told: list[Line] = []
    while page := await engine.logs(
        [1], inserted.job, least=Level.TRACE, after=told[-1].id if told else 0, limit=2, offset=0
    ):
        told += page
    assert [line.message.split(" ")[0] for line in told] == ["one", "attempt", "two"]


async def test_a_skipped_job_that_was_run_meanwhile_is_not_failed_for_it(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    [inserted] = await engine.insert(1, [new_job("emails", "send")])
    assert isinstance(inserted, Inserted)
    skips = await engine.register(1, NewWorker(name="skips", max_concurrent_jobs=1_000), 60)
    [claimed] = await engine.claim(Claim(skips.incarnation, 1))
    assert await engine.finish([Finish(claimed.fence, ToSkipped("not mine"))]) == []
    change = engine._job_changes.change_unmoved

    async def run_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        runs = await engine.register(1, NewWorker(name="runs", max_concurrent_jobs=1_000), 60)
        [again] = await engine.claim(Claim(runs.incarnation, 1))
        assert await engine.finish([Finish(again.fence, ToRetry(60.0, ERROR))]) == []
        return await change(*arguments)

    monkeypatch.setattr(engine._job_changes, "change_unmoved", run_first)
    assert await engine.expire(10) == 0
    assert [job.status for job in await engine.get([1], [inserted.job])] == [JobStatus.SCHEDULED]


async def test_a_death_that_is_told_while_somebody_else_looks_is_rescued_all_the_same(
    engine: PostgresEngine,
    connection: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That look may have come a moment too early, and there may be nobody who looks again."""
    [inserted] = await engine.insert(1, [new_job("emails", "send")])
    assert isinstance(inserted, Inserted)
    worker = await engine.register(1, NewWorker(name="w"), 60)
    assert len(await engine.claim(Claim(worker.incarnation, 1))) == 1
    lapsed, somebody_looks = engine.lapsed, connection.transaction()
    await somebody_looks.start()
    await connection.execute(f"select from {schema}.looks for update")

    async def look(*arguments: Any, **options: Any) -> Any:
        found = await lapsed(*arguments, **options)
        if connection.is_in_transaction():
            await somebody_looks.commit()
        return found

    async def opened() -> PostgresEngine:
        return engine

    monkeypatch.setattr(engine, "lapsed", look)
    assert await tell_death(opened, worker.incarnation, this_process(), asyncio.Event())
    [job] = await engine.get([1], [inserted.job])
    assert (job.status, job.crash_count) == (JobStatus.SCHEDULED, 1)


async def test_a_silence_that_two_find_at_once_is_bridged_once(
    postgres_url: str, connection: asyncpg.Connection, schema: str
) -> None:
    """Else what runs would get back twice what it lost, and a dead worker's jobs wait for twice as
    long."""
    clock = Clock()
    engines = [PostgresEngine(postgres_url, schema=schema, clock=clock) for _ in range(2)]
    for engine in engines:
        await engine.open()
    first = engines[0]
    try:
        await first.change_queue(1, CreateQueue(name="emails"))
        await first.insert(1, [new_job("emails", "send")])
        worker = await first.register(1, NewWorker(name="w"), 60)
        await first.claim(Claim(worker.incarnation, 1))
        assert await first.lapsed(10, rhythm=2.0) == []
        [before] = await first.active_executions([1], timed_out=False, limit=10)
        clock.advance(4)
        async with connection.transaction():
            await connection.execute(f"select from {schema}.workers for update")
            looks = [asyncio.create_task(engine.lapsed(10, rhythm=2.0)) for engine in engines]
            async with asyncio.timeout(10):
                while (
                    await connection.fetchval("select count(*) from pg_locks where not granted") < 2
                ):
                    await asyncio.sleep(0.005)
        assert await asyncio.gather(*looks) == [[], []]
        [after] = await first.active_executions([1], timed_out=False, limit=10)
        assert before.timeout_at is not None
        assert after.timeout_at == before.timeout_at + timedelta(seconds=4)
    finally:
        for engine in engines:
            await engine.close()


async def test_a_silence_is_bridged_though_that_meets_another_transaction_head_on(
    postgres_url: str, connection: asyncpg.Connection, schema: str
) -> None:
    """PostgreSQL undoes one of two that wait for each other; whoever renews just then has a lease
    all the same."""
    clock = Clock()
    engine = PostgresEngine(postgres_url, schema=schema, clock=clock)
    await engine.open()
    try:
        worker = await engine.register(1, NewWorker(name="w"), 60)
        await engine.renew(worker.incarnation, 60, Sample())
        assert await engine.lapsed(10, rhythm=2.0) == []
        await connection.execute(
            f"create sequence {schema}.tries; "
            f"create function {schema}.meet() returns trigger language plpgsql as $$ begin "
            f"if nextval('{schema}.tries') = 1 then "
            "raise exception using errcode = 'deadlock_detected'; end if; return null; end $$; "
            f"create trigger meet before update on {schema}.looks execute function {schema}.meet()"
        )
        clock.advance(90)
        await engine.renew(worker.incarnation, 60, Sample())
        assert await connection.fetchval(f"select last_value from {schema}.tries") == 2
    finally:
        await engine.close()


async def test_a_skipped_job_that_was_edited_meanwhile_is_not_failed_for_it(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    [inserted] = await engine.insert(1, [new_job("emails", "send")])
    assert isinstance(inserted, Inserted)
    skips = await engine.register(1, NewWorker(name="skips"), 60)
    [claimed] = await engine.claim(Claim(skips.incarnation, 1))
    assert await engine.finish([Finish(claimed.fence, ToSkipped("not mine"))]) == []
    change = engine._job_changes.change_unmoved

    async def edit_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        await engine.change([1], [inserted.job], EditJob(payload=b'{"now": "yours"}'))
        return await change(*arguments)

    monkeypatch.setattr(engine._job_changes, "change_unmoved", edit_first)
    assert await engine.expire(10) == 0
    assert len(await engine.claim(Claim(skips.incarnation, 1))) == 1


async def _unfit(engine: PostgresEngine) -> UUID:
    """A job whose arguments fit no handler of the only worker there is."""
    [inserted] = await engine.insert(1, [new_job("emails", "send")])
    assert isinstance(inserted, Inserted)
    old = await engine.register(1, NewWorker(name="old"), 60)
    [claimed] = await engine.claim(Claim(old.incarnation, 1))
    assert await engine.finish([Finish(claimed.fence, ToMisfit(ERROR, ToRetry(1.0, ERROR)))]) == []
    return inserted.job


def _once_before(
    engine: PostgresEngine,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    act: Callable[[], Awaitable[Any]],
) -> None:
    fetch = engine.connections.fetch

    async def act_first(name: str, *arguments: Any) -> Any:
        if name == statement:
            monkeypatch.undo()
            await act()
        return await fetch(name, *arguments)

    monkeypatch.setattr(engine.connections, "fetch", act_first)


async def test_a_job_that_got_another_chance_meanwhile_is_not_parked(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await _unfit(engine)
    _once_before(
        engine, monkeypatch, "park", lambda: engine.change([1], [job], EditJob(payload=b"{}"))
    )
    assert await engine.expire(10) == 0
    assert [found.status for found in await engine.get([1], [job])] == [JobStatus.PENDING]


async def test_a_worker_that_registers_while_a_job_is_parked_has_it_offered(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _unfit(engine)
    _once_before(engine, monkeypatch, "park", lambda: engine.register(1, NewWorker(name="new"), 60))
    assert await engine.expire(10) == 2  # parked, and due again
    assert await engine.stage(10) == 1


async def test_a_worker_is_registered_though_nothing_can_be_offered_to_it_just_now(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    await _unfit(engine)
    assert await engine.expire(10) == 1
    await connection.execute(
        f"create function {schema}.refuse() returns trigger language plpgsql as "
        "'begin raise exception using errcode = ''lock_not_available''; end'; "
        f"create trigger refuse before update on {schema}.waiting execute function "
        f"{schema}.refuse()"
    )
    new = await engine.register(1, NewWorker(name="new"), 60)
    await connection.execute(f"drop trigger refuse on {schema}.waiting")
    assert await engine.expire(10) == 1
    assert await engine.stage(10) == 1
    assert len(await engine.claim(Claim(new.incarnation, 1))) == 1


async def test_a_job_that_was_handed_back_is_taken_next_though_claims_look_further_on(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow claims seek past the turns that they took before; what goes back to one of these must
    not wait until they look again."""
    await engine.insert(1, [new_job("emails", "send", number) for number in range(10)])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    each_takes_a_second = SimpleNamespace(monotonic=itertools.count(100.0).__next__)
    monkeypatch.setattr("taskforge.storage.postgres.claims.time", each_takes_a_second)
    taken = [
        job
        for _ in range(SLOW_IN_A_ROW + 1)
        for job in await engine.claim(Claim(worker.incarnation, 1))
    ]
    assert [job.payload for job in taken] == [b"0", b"1", b"2", b"3"]
    assert await engine.finish([Finish(taken[1].fence, ToHandBack("stop"))]) == []
    assert [job.payload for job in await engine.claim(Claim(worker.incarnation, 2))] == [b"1", b"4"]


async def test_what_is_offered_again_after_an_hour_is_taken_next_though_claims_look_further_on(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    engine = PostgresEngine(postgres_url, schema=schema, clock=clock)
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="emails"))
        await engine.insert(1, [new_job("emails", "send", number) for number in range(10)])
        worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 1e6)
        [unfit] = await engine.claim(Claim(worker.incarnation, 1))
        assert (
            await engine.finish([Finish(unfit.fence, ToMisfit(ERROR, ToRetry(1.0, ERROR)))]) == []
        )
        clock.advance(MISFIT_SECONDS)
        each_takes_a_second = SimpleNamespace(monotonic=itertools.count(100.0).__next__)
        monkeypatch.setattr("taskforge.storage.postgres.claims.time", each_takes_a_second)
        for _ in range(SLOW_IN_A_ROW + 1):
            assert len(await engine.claim(Claim(worker.incarnation, 1))) == 1
        assert await engine.expire(10) == 1
        found = await engine.claim(Claim(worker.incarnation, 2))
        assert [job.payload for job in found] == [b"0", b"5"]
    finally:
        await engine.close()


async def test_a_claim_that_began_earlier_and_came_through_later_takes_slots_too(
    postgres_url: str, schema: str
) -> None:
    """What a worker runs is counted from the oldest job on that a claim has seen; one that was
    under way has an older one."""
    clock = Clock()
    engine = PostgresEngine(postgres_url, schema=schema, clock=clock)
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="emails"))
        await engine.insert(1, [new_job("emails", "send", number) for number in range(5)])
        clock.advance(60)
        worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=2), 600)
        for moved in (1.0, -0.5):
            clock.advance(moved)
            assert len(await engine.claim(Claim(worker.incarnation, 1))) == 1
        clock.advance(1.0)
        assert await engine.claim(Claim(worker.incarnation, 2)) == []
    finally:
        await engine.close()


async def test_a_queue_is_deleted_later_while_somebody_holds_what_runs_and_stops_no_claim_meanwhile(
    engine: PostgresEngine,
    connection: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queues, "LOCK_TRIES", 4)
    idle = await engine.change_queue(1, CreateQueue(name="idle"))
    await engine.insert(1, [new_job("emails", "send", number) for number in range(20)])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    async with connection.transaction():
        # a process that stands still here
        await connection.execute(f"update {schema}.running set attempt = attempt where false")
        deleting = asyncio.create_task(engine.change_queue(1, DeleteQueue(queue=idle.id)))
        async with asyncio.timeout(5):
            while not deleting.done():
                await engine.claim(Claim(worker.incarnation, 1))
        with pytest.raises(
            StoreUnavailable, match=r"queue 'idle' cannot be deleted just now: .*; try again"
        ):
            await deleting
    [claimed, *_] = await engine.active_executions([1], timed_out=False, limit=100)
    assert claimed.worker == worker.incarnation
    await engine.change_queue(1, DeleteQueue(queue=idle.id))
    assert [queue.name for queue in await engine.queues([1])] == ["emails"]


async def test_other_queues_change_while_one_waits_to_be_deleted(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    idle = await engine.change_queue(1, CreateQueue(name="idle"))
    async with connection.transaction():
        await connection.execute(f"update {schema}.running set attempt = attempt where false")
        deleting = asyncio.create_task(engine.change_queue(1, DeleteQueue(queue=idle.id)))
        async with asyncio.timeout(10):
            while not await connection.fetchval("select count(*) from pg_locks where not granted"):
                await asyncio.sleep(0.005)
            await engine.change_queue(1, CreateQueue(name="other"))
        assert not deleting.done()
    await deleting
    assert [queue.name for queue in await engine.queues([1])] == ["emails", "other"]
