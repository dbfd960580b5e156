"""Which jobs a worker holds by the store's word, with what deciding their outcomes takes."""

from collections.abc import Set as AbstractSet
from uuid import UUID

import msgspec

from taskforge.domain.ids import fence_of, job_of
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.job_parts import BRIEF
from taskforge.domain.outcome import Attempt
from taskforge.domain.queue import QueueSettings
from taskforge.ports.engine import Engine


class HeldJob(msgspec.Struct, frozen=True):
    fence: UUID
    attempt: Attempt
    policy: QueueSettings


def is_held(job: StoredJob, incarnation: UUID) -> bool:
    return job.status is JobStatus.PROCESSING and job.worker == incarnation


async def find_held(
    engine: Engine, project: int, incarnation: UUID, fences: AbstractSet[UUID]
) -> list[HeldJob]:
    """Of these those that the incarnation holds."""
    policies = {queue.name: queue.settings for queue in await engine.queues([project])}
    held = []
    for job in await engine.get([project], list({job_of(fence) for fence in fences}), BRIEF):
        # of several that were asked for of one job, at most this one holds
        fence = fence_of(job.id, job.epoch)
        if fence in fences and is_held(job, incarnation) and job.queue in policies:
            attempt = Attempt(
                job.attempt_count,
                job.max_attempts,
                job.crash_count,
                job.epoch,
                job.cancel_requested,
            )
            held.append(HeldJob(fence, attempt, policies[job.queue]))
    return held
