"""A project as it is now, in five figures: what its periodic report tells."""

from collections.abc import Sequence

import msgspec

from taskforge.domain.query import QueueStats
from taskforge.domain.worker import Worker, WorkerStatus


class ProjectSnapshot(msgspec.Struct, frozen=True):
    active: int  # jobs that run
    completed: int  # that succeeded, of those that are kept
    failed: int  # for good, of those that are kept
    queue_size: int  # that wait to be run now
    scheduled: int  # that wait for their time
    workers: int  # that are there


def sum_up(queues: Sequence[QueueStats], workers: Sequence[Worker]) -> ProjectSnapshot:
    return ProjectSnapshot(
        active=sum(queue.processing for queue in queues),
        completed=sum(queue.succeeded for queue in queues),
        failed=sum(queue.failed for queue in queues),
        queue_size=sum(queue.pending for queue in queues),
        scheduled=sum(queue.scheduled for queue in queues),
        workers=sum(worker.status is not WorkerStatus.OFFLINE for worker in workers),
    )
