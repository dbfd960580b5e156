"""Real concurrency on the store's own clock, over several engine objects: whoever comes first wins,
and nobody else."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from taskforge.domain.changes import CancelJob, Changed, EditJob
from taskforge.domain.claim import Claim
from taskforge.domain.errors import Conflict, Deregistered
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed, Inserted, JobStatus, new_job
from taskforge.domain.outcome import Finish, ToCancelled, ToHandBack, ToRetry, ToSucceeded, decide
from taskforge.domain.queue import CreateQueue, DeleteQueue, Queue
from taskforge.domain.worker import NewWorker, Registered, RegisterWorker, UpdateWorker
from taskforge.ports.engine import Engine
from tests.support.stores import Store
from tests.support.world import ERROR, Clock, World

PROCESSES = 3


class Crowd(World):
    """A world on the store's own clock, with an engine for each of several processes."""

    engines: list[Engine]

    def somebody(self, number: int) -> Engine:
        return self.engines[number % len(self.engines)]


@pytest.fixture
async def crowd(store: Store) -> Crowd:
    engines = [await store.open(None) for _ in range(PROCESSES)]
    made = Crowd(store, engines[0], Clock())
    made.engines = engines
    await made.queue("default")
    return made


async def test_one_who_registers_a_worker_ahead_and_its_process_just_then_make_one_worker(
    crowd: Crowd,
) -> None:
    ahead, process, _ = crowd.engines
    for number in range(60):
        name = f"w{number}"

        async def register(name: str = name, pause: float = 0.001 * (number % 4)) -> UUID | None:
            await asyncio.sleep(pause)
            try:
                return (
                    await ahead.change_worker(1, RegisterWorker(name=name, max_concurrent_jobs=3))
                ).id
            except Conflict:
                return None

        async def start(name: str = name, pause: float = 0.001 * (number // 4 % 4)) -> Registered:
            await asyncio.sleep(pause)
            return await process.register(1, NewWorker(name=name), 600)

        made, started = await asyncio.gather(register(), start())
        assert made in (None, started.worker), f"round {number}: two workers of one name"
        newest = [one for one in await ahead.workers([1]) if one.name == name][-1]
        assert newest.incarnation == started.incarnation, (
            f"round {number}: what is there is hidden by what is not"
        )
        assert newest.max_concurrent_jobs == (10 if made is None else 3)


async def drain(
    engine: Engine, incarnation: UUID, work: Callable[[Claimed], Awaitable[None]], batch: int
) -> None:
    """Claim until three claims in a row found nothing: one may miss what another claimer has just
    locked."""
    idle = 0
    while idle < 3:
        claimed = await engine.claim(Claim(incarnation, batch))
        idle = 0 if claimed else idle + 1
        for one in claimed:
            await work(one)
        if not claimed:
            await asyncio.sleep(0.01)


async def test_a_queue_is_not_deleted_under_a_job_that_is_just_being_claimed(
    crowd: Crowd, figure: Callable[[str], None]
) -> None:
    deletes, claims, *_ = crowd.engines
    worker = await claims.register(1, NewWorker(name="w"), 600)
    seen: Counter[tuple[bool, bool]] = Counter()
    for number in range(150):
        queue = await deletes.change_queue(1, CreateQueue(name=f"queue-{number}"))
        await deletes.insert(1, [new_job(queue.name, "work")])
        await claims.claim(Claim(worker.incarnation, 0))  # which knows the queue from now on

        async def claim(pause: float = 0.001 * (number // 4 % 4)) -> list[Claimed]:
            await asyncio.sleep(pause)
            return await claims.claim(Claim(worker.incarnation, 1))

        async def delete(queue: Queue = queue, pause: float = 0.001 * (number % 4)) -> bool:
            await asyncio.sleep(pause)
            try:
                await deletes.change_queue(1, DeleteQueue(queue=queue.id))
            except Conflict:
                return False
            return True

        claimed, deleted = await asyncio.gather(claim(), delete())
        assert not (claimed and deleted), f"round {number}: the queue went although its job runs"
        assert claimed or deleted
        seen[bool(claimed), deleted] += 1
        await claims.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
    name = type(deletes).__name__
    figure(
        f"delete against claim {name}: n = {seen.total()}, {seen[True, False]} claimed, "
        f"{seen[False, True]} deleted"
    )


async def test_claimers_never_share_a_job(crowd: Crowd) -> None:
    jobs: list[UUID] = []
    for kind in range(5):
        answers = await crowd.insert(
            *(
                new_job("default", f"type-{kind}", number, priority=kind % 2)
                for number in range(200)
            )
        )
        jobs += [answer.job for answer in answers if isinstance(answer, Inserted)]
    taken: list[UUID] = []

    async def claimer(number: int) -> None:
        engine = crowd.somebody(number)
        worker = await engine.register(
            1, NewWorker(name=f"w{number}", max_concurrent_jobs=1_000), 60
        )

        async def work(one: Claimed) -> None:
            taken.append(one.fence)

        await drain(engine, worker.incarnation, work, 1 + number * 3)

    await asyncio.gather(*(claimer(number) for number in range(9)))
    assert max(Counter(taken).values()) == 1
    assert sorted(job_of(fence) for fence in taken) == sorted(jobs)
    assert await crowd.probe.count("running") == 1_000


async def test_jobs_are_finished_once_while_they_are_stolen_and_handed_back(crowd: Crowd) -> None:
    jobs = await crowd.enqueue_many(300, max_attempts=10_000)
    accepted: Counter[UUID] = Counter()

    async def worker(number: int) -> None:
        engine, dice = crowd.somebody(number), random.Random(number)
        registered = await engine.register(
            1, NewWorker(name=f"w{number}", max_concurrent_jobs=1_000), 60
        )

        async def work(one: Claimed) -> None:
            if dice.random() < 0.3:
                assert await engine.finish([Finish(one.fence, ToHandBack("thief"))]) == []
                # The job may be anybody's by now: this must be refused.
                assert await engine.finish([Finish(one.fence, ToSucceeded())]) != []
            elif not await engine.finish([Finish(one.fence, ToSucceeded())]):
                accepted[job_of(one.fence)] += 1

        await drain(engine, registered.incarnation, work, 5)

    await asyncio.gather(*(worker(number) for number in range(6)))
    assert accepted == Counter(dict.fromkeys(jobs, 1))
    stats = await crowd.stats()
    assert (stats.succeeded, stats.pending, stats.processing) == (300, 0, 0)


async def test_claims_of_one_worker_at_once_keep_its_slots(crowd: Crowd) -> None:
    """It may ask several servers, and ask again before it has heard of the last time."""
    await crowd.enqueue_many(200)
    for round_ in range(10):
        worker = await crowd.worker(max_concurrent_jobs=3)
        asking = (
            crowd.somebody(number).claim(Claim(worker.incarnation, 1 + number % 3))
            for number in range(6)
        )
        claimed = [one for claim in await asyncio.gather(*asking) for one in claim]
        assert len(claimed) == 3, round_
        await crowd.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])


async def test_a_worker_leaves_or_gets_a_job_and_never_both(crowd: Crowd) -> None:
    claiming, leaving, *_ = crowd.engines
    came: Counter[str] = Counter()
    await crowd.enqueue_many(100)
    for number in range(300):
        worker = await leaving.register(1, NewWorker(name=f"w{number}", max_concurrent_jobs=1), 60)
        if number % 2:  # the claimer knows it already, and is quicker
            await claiming.claim(Claim(worker.incarnation, 0))
        claimed, left = await asyncio.gather(
            claiming.claim(Claim(worker.incarnation, 1)),
            leaving.deregister(worker.incarnation),
            return_exceptions=True,
        )
        assert isinstance(left, None | Conflict), left
        if isinstance(claimed, list) and claimed:
            assert isinstance(left, Conflict), f"round {number}: it got a job and has left"
            await leaving.finish([Finish(claimed[0].fence, ToHandBack("next"))])
        else:
            assert left is None or isinstance(claimed, Deregistered), (claimed, left)
        came["job" if isinstance(left, Conflict) else "left"] += 1
    assert came["left"]
    assert await crowd.probe.count("running") == 0


async def test_rescue_against_finish_has_one_winner(crowd: Crowd) -> None:
    jobs = await crowd.enqueue_many(120)
    worker = await crowd.worker(lease=0.3)
    claimed = await crowd.claim(worker, 120)
    assert len(claimed) == 120
    await asyncio.sleep(0.35)
    won: Counter[str] = Counter()

    async def finisher() -> None:
        for one in claimed:
            lost = await crowd.somebody(0).finish([Finish(one.fence, ToSucceeded())])
            won["worker"] += not lost

    async def rescuer(number: int) -> None:
        engine = crowd.somebody(number)
        while lapsed := await engine.lapsed(10):
            finishes = [
                Finish(one.fence, decide(one.attempt, one.outcome, one.policy, 0.5))
                for one in lapsed
            ]
            lost = await engine.finish(finishes, lapsed=True)
            won["rescuer"] += len(lapsed) - len(lost)

    await asyncio.gather(finisher(), rescuer(1), rescuer(2))
    stats = await crowd.stats()
    assert won["worker"] + won["rescuer"] == len(jobs)
    assert (stats.succeeded, stats.pending, stats.processing) == (won["worker"], won["rescuer"], 0)


async def test_the_concurrency_limit_holds_under_eight_claimers(crowd: Crowd) -> None:
    await crowd.queue("narrow", max_concurrent_jobs=4)
    await crowd.enqueue_many(120, "narrow")
    done, most, over = 0, 0, asyncio.Event()

    async def claimer(number: int) -> None:
        nonlocal done
        engine = crowd.somebody(number)
        worker = await engine.register(
            1, NewWorker(name=f"w{number}", max_concurrent_jobs=1_000), 60
        )
        while done < 120:
            for one in await engine.claim(Claim(worker.incarnation, 3)):
                await asyncio.sleep(0)
                assert await engine.finish([Finish(one.fence, ToSucceeded())]) == []
                done += 1

    async def watcher() -> None:
        nonlocal most
        while not over.is_set():
            most = max(most, await crowd.probe.count("running"))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watcher())
    async with asyncio.timeout(60):
        await asyncio.gather(*(claimer(number) for number in range(8)))
    over.set()
    await watching
    assert 1 <= most <= 4
    assert (await crowd.stats("narrow")).succeeded == 120


async def test_the_rate_limit_holds_under_eight_claimers(crowd: Crowd) -> None:
    await crowd.queue("metered", rate_limit=60 * 40, rate_limit_burst=10)
    await crowd.enqueue_many(400, "metered")
    taken: list[float] = []
    started = time.monotonic()

    async def claimer(number: int) -> None:
        engine = crowd.somebody(number)
        worker = await engine.register(
            1, NewWorker(name=f"w{number}", max_concurrent_jobs=1_000), 60
        )
        while time.monotonic() - started < 1.5:
            claimed = await engine.claim(Claim(worker.incarnation, 5))
            taken.extend([time.monotonic()] * len(claimed))
            await asyncio.sleep(0)

    await asyncio.gather(*(claimer(number) for number in range(8)))
    elapsed = time.monotonic() - started
    assert len(taken) <= 10 + 40 * elapsed + 1
    assert len(taken) >= 10 + 40 * 1.5 * 0.5
    assert await crowd.probe.count("running") == len(taken)


@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_many_inserts_with_one_key_make_one_job(crowd: Crowd, key: str) -> None:
    for turn in range(10):
        job = new_job("default", "work", 1, **{key: f"k{turn}"})  # type: ignore[arg-type]
        answers = await asyncio.gather(
            *(crowd.somebody(number).insert(1, [job, job]) for number in range(9))
        )
        flat = [answer for batch in answers for answer in batch]
        assert all(isinstance(answer, Inserted) for answer in flat)
        assert len({answer.job for answer in flat if isinstance(answer, Inserted)}) == 1
        assert sum(not answer.existed for answer in flat if isinstance(answer, Inserted)) == 1
    assert await crowd.probe.count("jobs") == 10


async def test_batches_that_want_the_same_keys_in_other_orders_do_not_get_stuck(
    crowd: Crowd,
) -> None:
    keys = [f"k{number}" for number in range(40)]

    async def inserter(number: int) -> None:
        order = random.Random(number).sample(keys, len(keys))
        answers = await crowd.somebody(number).insert(
            1, [new_job("default", "work", unique_key=key) for key in order]
        )
        assert all(isinstance(answer, Inserted) for answer in answers)

    async with asyncio.timeout(30):
        await asyncio.gather(*(inserter(number) for number in range(9)))
    assert await crowd.probe.count("jobs") == 40


async def test_cancel_finish_edit_and_claim_at_once_leave_every_job_in_one_place(
    crowd: Crowd,
) -> None:
    jobs = await crowd.enqueue_many(80, max_attempts=10_000, unique_key=None)
    await crowd.queue("second")
    cancelled: set[UUID] = set()
    over = asyncio.Event()

    async def worker(number: int) -> None:
        engine, dice = crowd.somebody(number), random.Random(number)
        registered = await engine.register(
            1, NewWorker(name=f"w{number}", max_concurrent_jobs=1_000), 60
        )
        while not over.is_set():
            for one in await engine.claim(Claim(registered.incarnation, 4)):
                [*lost] = await engine.finish(
                    [Finish(one.fence, dice.choice([ToHandBack("x"), ToRetry(0.0, ERROR)]))]
                )
                if lost:
                    assert lost[0].cancel_requested, "nobody else may touch a running job"
                    assert await engine.finish([Finish(one.fence, ToCancelled("as asked"))]) == []

    async def editor(number: int) -> None:
        engine, dice = crowd.somebody(number), random.Random(number)
        while not over.is_set():
            some = dice.sample(jobs, 5)
            change = dice.choice(
                [
                    EditJob(priority=dice.randint(0, 3)),
                    EditJob(queue=dice.choice(["default", "second"])),
                ]
            )
            for answer in await engine.change([1], some, change):
                assert isinstance(answer, Changed) or isinstance(answer.error, Conflict), answer

    async def canceller() -> None:
        for job in jobs:
            [answer] = await crowd.somebody(1).change([1], [job], CancelJob())
            assert isinstance(answer, Changed), answer
            cancelled.add(job)
            await crowd.probe.places()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(worker(number))
        for number in range(2):
            group.create_task(editor(number))
        await canceller()
        while (await crowd.probe.count("finished")) < len(jobs):
            await asyncio.sleep(0.01)
        over.set()
    assert {job.status for job in await crowd.engine.get([1], jobs)} == {JobStatus.CANCELLED}


async def test_stagers_and_expirers_share_the_work_without_doing_it_twice(crowd: Crowd) -> None:
    await crowd.enqueue_many(300, at=0.05)
    await crowd.enqueue_many(300, expires=0.05)
    await asyncio.sleep(0.1)

    async def until_done(call: Callable[[int], Awaitable[int]]) -> int:
        total = 0
        while count := await call(20):
            total += count
        return total

    staged = await asyncio.gather(*(until_done(engine.stage) for engine in crowd.engines))
    expired = await asyncio.gather(*(until_done(engine.expire) for engine in crowd.engines))
    assert (sum(staged), sum(expired)) == (300, 300)
    stats = await crowd.stats()
    assert (stats.pending, stats.failed) == (300, 300)


async def test_two_processes_that_make_the_same_queue_agree_on_one(crowd: Crowd) -> None:
    async def make(number: int) -> bool:
        try:
            await crowd.somebody(number).change_queue(1, CreateQueue(name="contested"))
        except Conflict:
            return False
        return True

    made = await asyncio.gather(*(make(number) for number in range(6)))
    assert sum(made) == 1


async def test_one_name_is_given_to_one_of_two_workers(crowd: Crowd) -> None:
    workers = [await crowd.worker() for _ in range(2)]

    async def rename(number: int, name: str) -> bool:
        change = UpdateWorker(worker=workers[number].worker, name=name)
        try:
            await crowd.somebody(number).change_worker(1, change)
        except Conflict:
            return False
        return True

    for round_ in range(20):
        given = await asyncio.gather(*(rename(number, f"name-{round_}") for number in range(2)))
        assert sum(given) == 1, round_


async def test_folding_by_many_keeps_every_count(crowd: Crowd) -> None:
    async def enqueue_and_finish(number: int) -> None:
        engine = crowd.somebody(number)
        worker = await engine.register(
            1, NewWorker(name=f"w{number}", max_concurrent_jobs=1_000), 60
        )
        for _ in range(15):
            await engine.insert(1, [new_job("default", "work") for _ in range(4)])
            claimed = await engine.claim(Claim(worker.incarnation, 4))
            await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
            await engine.fold(3)

    await asyncio.gather(*(enqueue_and_finish(number) for number in range(4)))
    finished = await crowd.probe.count("finished")
    assert (await crowd.stats()).succeeded == finished
    assert sum((await crowd.probe.rollups()).values()) == finished
    while await crowd.engine.fold(100):
        pass
    assert (await crowd.stats()).succeeded == finished
    assert sum((await crowd.probe.rollups()).values()) == finished
