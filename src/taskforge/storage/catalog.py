"""Queues, lanes and assignments as one process remembers them, and which lanes a worker may take.

Engines keep one `Catalog` per version of the store's catalog row and prove inside each claim and insert that it is still the
newest, so whatever is computed here may be remembered for as long as the version stands.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment
from taskforge.domain.eligibility import Hindrance, hindrance_to_run, hindrance_to_serve
from taskforge.domain.errors import Conflict, NotFound, nearest
from taskforge.domain.job import Job
from taskforge.domain.limiter import Adaptive
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.worker import Worker


class Lane(msgspec.Struct, frozen=True):
    number: int
    project: int
    queue: int
    job_type: str
    priority: int
    requires: str


LaneKey = tuple[int, str, int, str]
"""(queue, job type, priority, requires)"""


class Taker(msgspec.Struct, frozen=True):
    """A worker as far as claims depend on it."""

    worker: UUID
    incarnation: UUID
    project: int
    worker_type: str
    role: str | None
    capabilities: dict[str, Any]
    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    accepts: bool  # neither draining nor unhealthy


def taker_of(worker: Worker) -> Taker:
    return Taker(
        worker.id,
        worker.incarnation,
        worker.project,
        worker.worker_type,
        worker.role,
        worker.capabilities,
        worker.queues,
        worker.types,
        worker.accepts_jobs,
    )


class OpenLane(msgspec.Struct, frozen=True):
    """A lane that one worker may take, with all that a claim from it needs."""

    number: int
    tier: int  # lower first
    queue: int
    queue_name: str
    job_type: str
    priority: int
    settings: QueueSettings


class Catalog:
    def __init__(
        self, version: int, queues: Iterable[Queue], lanes: Iterable[Lane], assignments: Iterable[Assignment] = ()
    ) -> None:
        self.version = version
        self.queues = {queue.number: queue for queue in queues}
        self.lanes = {lane.number: lane for lane in lanes}
        self.assignments = {(assignment.queue, assignment.worker): assignment for assignment in assignments}
        self._by_name = {(queue.project, queue.name): queue for queue in self.queues.values() if queue.deleted_at is None}
        self._by_id = {queue.id: queue for queue in self.queues.values()}
        self._by_written_id = {(queue.project, str(queue.id)): queue for queue in self._by_name.values()}
        self._by_key = {(lane.queue, lane.job_type, lane.priority, lane.requires): lane.number for lane in self.lanes.values()}
        self._open: dict[UUID, tuple[OpenLane, ...]] = {}
        live = self._by_name.values()
        self.has_gates = any(queue.settings.is_gated for queue in live)
        self.adaptive = [queue.number for queue in live if isinstance(queue.settings.bucket, Adaptive)]
        self._dead_letter_targets = {queue.settings.dead_letter_queue_id for queue in live}
        self._servants: dict[UUID, set[UUID]] = {}
        for (queue, worker), assignment in self.assignments.items():
            if assignment.is_active:
                self._servants.setdefault(queue, set()).add(worker)

    def queue_named(self, project: int, name: str) -> Queue:
        """The live queue with this name, else the one whose id this is: no queue can be named like another's id."""
        queue = self._by_name.get((project, name)) or self._by_written_id.get((project, name.lower()))
        if queue is None:
            known = [queue.name for queue in self._by_name.values() if queue.project == project]
            raise NotFound("queue", name, nearest=nearest(name, known))
        return queue

    def queues_named(self, projects: Sequence[int], name: str) -> list[int]:
        """The same over several projects, of which more than one may have a queue of that name."""
        for known, text in ((self._by_name, name), (self._by_written_id, name.lower())):
            found = [known[project, text].number for project in dict.fromkeys(projects) if (project, text) in known]
            if found:
                return found
        names = [queue.name for queue in self._by_name.values() if queue.project in projects]
        raise NotFound("queue", name, nearest=nearest(name, names))

    def check_name(self, project: int, name: str) -> None:
        """Whether a queue may be named so; the name of another is taken, and so is its id."""
        if (project, name) in self._by_name:
            raise Conflict(f"queue {name!r} already exists in this project")
        if (project, name.lower()) in self._by_written_id:
            raise Conflict(f"{name!r} is the id of queue {self._by_written_id[project, name.lower()].name!r}; use another name")

    def queue_with_id(self, project: int, identifier: UUID) -> Queue:
        queue = self._by_id.get(identifier)
        if queue is None or queue.project != project or queue.deleted_at is not None:
            raise NotFound("queue", str(identifier))
        return queue

    def place_of(self, job: Job) -> tuple[Queue, Lane | None]:
        """The queue a job stands in, deleted or not, and its lane there."""
        queue = self._by_id[job.queue_id]
        number = self.lane((queue.number, job.job_type, job.priority, job.requires))
        return queue, None if number is None else self.lanes[number]

    def lane(self, key: LaneKey) -> int | None:
        return self._by_key.get(key)

    def lanes_of(self, queues: Iterable[int]) -> list[int]:
        wanted = set(queues)
        return [lane.number for lane in self.lanes.values() if lane.queue in wanted]

    def dead_letter_targets_of(self, project: int) -> dict[UUID, UUID | None]:
        """Each live queue of the project and where its dead letters go, as `check_dead_letter` wants it."""
        return {queue.id: queue.settings.dead_letter_queue_id for (owner, _), queue in self._by_name.items() if owner == project}

    def assignments_of(self, projects: Iterable[int]) -> list[Assignment]:
        """Those of live queues, by queue and by age."""
        wanted = set(projects)
        found = [
            assignment
            for assignment in self.assignments.values()
            if assignment.project in wanted and self._by_id[assignment.queue].deleted_at is None
        ]
        return sorted(found, key=lambda one: (self._by_id[one.queue].name, one.queue, one.created_at, one.worker))

    def may_take(self, taker: Taker, lane: Lane) -> bool:
        """The rule of eligibility, pause included; limits and skips come later."""
        queue = self.queues[lane.queue]
        if queue.project != taker.project or not queue.is_active or queue.deleted_at is not None:
            return False
        return self.hindrance(taker, lane) is None

    def hindrance(self, taker: Taker, lane: Lane) -> Hindrance | None:
        """What keeps a worker of the project from the jobs of a lane, were its queue not paused."""
        queue = self.queues[lane.queue]
        servants = self._servants.get(queue.id, ())
        to_serve = hindrance_to_serve(taker.worker, taker.queues, queue, servants, self._dead_letter_targets)
        offered = taker.capabilities | {"worker_type": taker.worker_type, "role": taker.role}
        return to_serve or hindrance_to_run(lane.job_type, lane.requires, taker.types, offered)

    def open_lanes(self, taker: Taker) -> tuple[OpenLane, ...]:
        """The lanes this worker may take, best tier first."""
        found = self._open.get(taker.incarnation)
        if found is None:
            lanes = [lane for lane in self.lanes.values() if taker.accepts and self.may_take(taker, lane)]
            found = tuple(sorted((self.opened(lane) for lane in lanes), key=lambda lane: (lane.tier, lane.number)))
            self._open[taker.incarnation] = found
        return found

    def tier(self, lane: Lane) -> int:
        """Lower ones go first."""
        return 99 - (self.queues[lane.queue].priority * 10 + lane.priority)

    def opened(self, lane: Lane) -> OpenLane:
        queue = self.queues[lane.queue]
        return OpenLane(
            number=lane.number,
            tier=self.tier(lane),
            queue=queue.number,
            queue_name=queue.name,
            job_type=lane.job_type,
            priority=lane.priority,
            settings=queue.settings,
        )
