"""The ways in which a job can end: how it comes to stand where it ends, and what then ends it."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import msgspec

from taskforge.domain.changes import (
    CancelJob,
    DeleteJob,
    ErasePayload,
    RedriveJob,
    RetryJob,
)
from taskforge.domain.outcome import (
    MISFIT_SECONDS,
    CancelOutcome,
    FailForGood,
    Failure,
    HandBackOutcome,
    MisfitOutcome,
    Outcome,
    SkipOutcome,
    Success,
    ToDeadLetter,
)
from taskforge.domain.queue import DeleteQueue
from tests.support.endings import AFTERWARDS, EFFECTS, QUEUE, Scene, look, retry, tell
from tests.support.world import ERROR, World

Act = Callable[[Scene], Awaitable[object]]
LAST = {"max_attempts": 1}  # the next failure is the last one
DAYS = 86_400.0


class Way(msgspec.Struct, frozen=True):
    act: Act
    begin: Act | None = None  # None: the job is pending
    job: dict[str, Any] = {}
    queue: dict[str, Any] = {}


def report(outcome: Outcome) -> Act:
    return lambda scene: scene.report(outcome)


def change(wanted: Any) -> Act:
    return lambda scene: scene.change(wanted)


def then(*acts: Act) -> Act:
    async def one_after_the_other(scene: Scene) -> None:
        for act in acts:
            await act(scene)

    return one_after_the_other


def later(seconds: float, act: Act) -> Act:
    async def when_time_has_passed(scene: Scene) -> None:
        scene.world.clock.advance(seconds)
        await act(scene)

    return when_time_has_passed


async def run(scene: Scene) -> None:
    await scene.claim()


async def dig_up(scene: Scene) -> None:
    """A dead letter goes to whoever asks for its queue by name."""
    await scene.claim(await scene.world.online_worker(queues=("dead",)))


async def schedule(scene: Scene) -> None:
    await scene.schedule()


async def join(scene: Scene) -> None:
    """Two jobs instead of one."""
    scene.jobs.append(await scene.world.enqueue(QUEUE, tags=["tag"]))


async def expire(scene: Scene) -> None:
    assert await scene.world.engine.expire(10) == 1


async def rescue(scene: Scene) -> None:
    assert len(await scene.world.rescue()) == 1


async def die(scene: Scene) -> None:
    assert scene.worker is not None
    await scene.world.engine.deregister(scene.worker.incarnation, died=True)


async def prune(scene: Scene) -> None:
    assert (await scene.world.engine.prune(1, 100)).jobs == 1


async def bury_nowhere(scene: Scene) -> None:
    """The dead letter queue was deleted between the decision and the write."""
    assert scene.claimed is not None
    grave = ToDeadLetter(uuid4(), ERROR, "no attempts left after 1")
    assert await scene.world.finish(scene.claimed.fence, grave, ran=1.5) == []


async def delete_queue(scene: Scene) -> None:
    await scene.change_queue(DeleteQueue(queue=await scene.queue_id()))


async def sweep_up(scene: Scene) -> None:
    """What a deleted queue held beyond the first thousand is left to the upkeep."""
    assert await scene.world.engine.expire(10) == 1


async def delete_large_queue(scene: Scene) -> None:
    await scene.world.enqueue_many(1_000, QUEUE)
    await delete_queue(scene)


bury = then(run, report(Failure(ERROR)))
fail = then(run, report(FailForGood(ERROR)))
BURIED: dict[str, Any] = {"job": LAST, "queue": {"buries": True}}

WAYS = {
    # by what a worker reports
    "succeed": Way(report(Success(b"42")), run),
    "fail for good": Way(report(FailForGood(ERROR)), run),
    "fail, no attempts left": Way(report(Failure(ERROR)), run, LAST),
    "fail in a dead letter queue": Way(report(FailForGood(ERROR)), then(bury, dig_up), **BURIED),
    "fail, dead letter queue gone": Way(bury_nowhere, run, LAST),
    "dead letter": Way(report(Failure(ERROR)), run, **BURIED),
    "cancelled by its handler": Way(report(CancelOutcome("no")), run),
    "misfit after its hour": Way(
        report(MisfitOutcome(ERROR)),
        then(run, report(MisfitOutcome(ERROR)), later(MISFIT_SECONDS, run)),
        LAST,
    ),
    # by an operator
    "cancel while pending": Way(change(CancelJob())),
    "cancel while scheduled": Way(change(CancelJob()), schedule),
    "cancel while processing": Way(
        then(change(CancelJob()), report(HandBackOutcome("stop"))), run
    ),
    "cancel too late": Way(then(change(CancelJob()), report(Success(b"42"))), run),
    "cancel in bulk": Way(change(CancelJob()), join),
    "queue deleted while pending": Way(delete_queue),
    "queue deleted while scheduled": Way(delete_queue, schedule),
    "queue deleted, swept up later": Way(sweep_up, then(schedule, delete_large_queue)),
    # by the upkeep
    "expire while pending": Way(later(6, expire), job={"expires": 5.0}),
    "expire while scheduled": Way(later(6, expire), schedule, {"deadline": 5.0}),
    "deadline while processing": Way(later(6, rescue), run, {"deadline": 5.0}),
    "skipped by all": Way(expire, then(run, report(SkipOutcome("nor mine")))),
    "rescue, timed out, no attempts left": Way(
        later(6, rescue), run, {"timeout_seconds": 5.0, **LAST}
    ),
    "rescue, silent, no attempts left": Way(
        later(6, rescue), run, LAST, {"heartbeat_timeout_seconds": 5.0}
    ),
    "rescue, worker died, no attempts left": Way(then(die, rescue), run, LAST),
    "rescue, poison pill": Way(then(die, rescue), run, {}, {"max_crashes": 1}),
    "rescue, dead letter": Way(then(die, rescue), run, **BURIED),
    # what has ended goes, or lives again
    "delete": Way(change(DeleteJob()), fail),
    "delete in bulk": Way(
        change(DeleteJob()), then(join, change(CancelJob()))
    ),
    "prune": Way(later(3 * DAYS, prune), fail),
    "erase": Way(change(ErasePayload()), fail),
    "retry": Way(change(RetryJob()), fail),
    "redrive": Way(change(RedriveJob()), then(bury, dig_up, report(FailForGood(ERROR))), **BURIED),
}  # fmt: skip


async def end(world: World, way: Way) -> dict[str, str]:
    """The row that the table should have."""
    scene = await Scene.make(world, dict(way.queue), way.job)
    if way.begin is not None:
        await way.begin(scene)
    before = await look(scene)
    await way.act(scene)
    after = await look(scene)
    row = {name: tell(before[name], after[name]) for name in EFFECTS}
    return {**row, AFTERWARDS: await retry(scene)}
