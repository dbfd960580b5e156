"""A store that was set back to an earlier time: what was handed out since then is over."""

import pytest

from taskforge.domain.changes import RetryJob
from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost
from taskforge.domain.ids import epoch_of, fence_of, is_first
from taskforge.domain.job import ErrorInfo, Inserted, JobStatus, new_job
from taskforge.domain.outcome import Attempt, Finish, HandBackOutcome, ToFailed, ToSucceeded, decide
from taskforge.domain.queue import CreateQueue
from taskforge.domain.term import Deposed
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import Engine
from taskforge.storage.records.cluster import ClusterRecords, held
from tests.support.nodes import a_node


@pytest.fixture
async def queued(engine: Engine) -> Engine:
    await engine.change_queue(1, CreateQueue(name="emails"))
    return engine


async def test_a_fence_of_before_is_refused_and_its_job_is_given_back_unspent(
    queued: Engine,
) -> None:
    [made] = await queued.insert(1, [new_job("emails", "work")])
    assert isinstance(made, Inserted)
    worker = await queued.register(1, NewWorker(name="before"), 60)
    [held_before] = await queued.claim(Claim(worker.incarnation, 1))
    await queued.mark_restored()
    assert len(await queued.finish([Finish(held_before.fence, ToSucceeded())])) == 1
    with pytest.raises(LeaseLost):
        await queued.renew(worker.incarnation, 60, Sample())
    [lapsed] = await queued.lapsed(10)
    await queued.finish(
        [Finish(lapsed.fence, decide(lapsed.attempt, lapsed.outcome, lapsed.policy, 0.5))],
        lapsed=True,
    )
    await queued.stage(10)
    again = await queued.register(1, NewWorker(name="after"), 60)
    [claimed] = await queued.claim(Claim(again.incarnation, 1))
    assert claimed.fence > held_before.fence
    assert await queued.finish([Finish(claimed.fence, ToSucceeded())]) == []
    [job] = await queued.get([1], [made.job])
    assert job.status is JobStatus.SUCCEEDED
    assert (job.attempt_count, job.crash_count) == (1, 0)


async def test_the_next_claims_of_before_are_not_those_of_now(queued: Engine) -> None:
    """Jobs that were ready, and one that had ended: in the store of before they may have been
    claimed, and claimed again, since the backup was made."""
    worker = await queued.register(1, NewWorker(name="w"), 60)
    [ended] = await queued.insert(1, [new_job("emails", "work")])
    [claimed] = await queued.claim(Claim(worker.incarnation, 1))
    await queued.finish([Finish(claimed.fence, ToFailed(ErrorInfo("E", "no"), "no"))])
    [ready] = await queued.insert(1, [new_job("emails", "work")])
    assert isinstance(ended, Inserted)
    assert isinstance(ready, Inserted)
    since = [fence_of(ready.job, 1), fence_of(ready.job, 2), fence_of(ended.job, 2)]
    await queued.mark_restored()
    worker = await queued.register(1, NewWorker(name="w"), 60)
    await queued.change([1], [ended.job], RetryJob())
    fences = {one.fence for one in await queued.claim(Claim(worker.incarnation, 10))}
    assert len(fences) == 2
    assert fences.isdisjoint(since)
    assert {is_first(fence) for fence in fences} == {True, False}
    lost = await queued.finish([Finish(fence, ToSucceeded()) for fence in since])
    assert len(lost) == len(since)
    assert await queued.finish([Finish(fence, ToSucceeded()) for fence in fences]) == []


async def test_a_store_that_is_restored_twice_hands_out_nothing_twice(queued: Engine) -> None:
    await queued.insert(1, [new_job("emails", "work")])
    seen = set()
    for _ in range(3):
        worker = await queued.register(1, NewWorker(name="w"), 60)
        [claimed] = await queued.claim(Claim(worker.incarnation, 1))
        seen.add(epoch_of(claimed.fence))
        attempt = Attempt(
            attempt=claimed.attempt,
            max_attempts=claimed.max_attempts,
            crashes=claimed.crashes,
            epoch=epoch_of(claimed.fence),
        )
        back = decide(attempt, HandBackOutcome(), claimed.policy, 0.5)
        assert await queued.finish([Finish(claimed.fence, back)]) == []
        await queued.mark_restored()
    assert len(seen) == 3


async def test_a_leader_of_before_writes_nothing(queued: Engine) -> None:
    cluster = ClusterRecords(queued)
    node = a_node()
    seen = await cluster.look(node)
    term = await cluster.take(node, seen.reign, 60.0)
    assert term is not None
    await queued.mark_restored()
    for late in (term, term + 1):
        with pytest.raises(Deposed):
            await queued.write([held(late)])
    seen = await cluster.look(node)
    successor = await cluster.take(node, seen.reign, 60.0)
    assert successor is not None
    assert successor > term + 1
