"""Scaling policies as their owners make, see and steer them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.access import PLATFORM_ORGANIZATION
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Invalid, NotFound, nearest
from taskforge.domain.metrics import Metrics
from taskforge.domain.queue import Queue
from taskforge.domain.queue_scaling import (
    MOST_POINTS,
    POINT_DAYS,
    AdvisedScaling,
    QueueScaling,
    ScalingEntry,
    ScalingPoint,
    read_scaling,
)
from taskforge.domain.scaling import evaluate
from taskforge.domain.scaling_provider import (
    NONE,
    AwsDeclaration,
    Declaration,
    KubernetesDeclaration,
)
from taskforge.domain.scaling_trace import ScalingTrace, TracedJobs
from taskforge.operations.naming import find_queue
from taskforge.operations.scaling_sight import Rates, read_sights
from taskforge.ports.engine import AnyEngine, Engine
from taskforge.ports.scaling import Scaling
from taskforge.storage.records.organizations import Organizations
from taskforge.storage.records.projects import Projects
from taskforge.storage.records.scaling import ScalingRecords

# Of these there is one fleet, however many policies there are: two of them would pull it about.
OF_ONE_POLICY = (KubernetesDeclaration, AwsDeclaration)


class ProjectPath(msgspec.Struct, frozen=True):
    """A project as the settings of the platform name it."""

    organization: str
    project: str
    is_first: bool  # of the first organization

    def __str__(self) -> str:
        return self.project if self.is_first else f"{self.organization}/{self.project}"


async def path_of(engine: Engine, project: int) -> ProjectPath:
    found = await Projects(engine).get(project)
    organizations = {one.number: one.name for one in await Organizations(engine).all()}
    is_first = found.organization == PLATFORM_ORGANIZATION
    return ProjectPath(organizations[found.organization], found.name, is_first)


def providers_for(declared: Mapping[str, Declaration], path: ProjectPath) -> dict[str, Declaration]:
    """Those that policies of a project may name."""
    return {
        name: one
        for name, one in declared.items()
        if one.admits(path.organization, path.project, is_first=path.is_first)
    }


class StoreScaling:
    """Implements the port `Scaling` on a store."""

    def __init__(self, engine: Engine, declared: Mapping[str, Declaration]) -> None:
        """`declared`: the providers that the settings of the platform name."""
        self._engine = engine
        self._records = ScalingRecords(engine)
        self._declared = declared

    async def policies(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[QueueScaling]:
        return await self._records.policies(projects, after=after, limit=limit)

    async def find(self, queue: Queue) -> QueueScaling | None:
        return await self._records.find(queue.id)

    async def put(
        self, queue: Queue, fields: Mapping[str, Any], note: Note | None, expected: str | None
    ) -> QueueScaling:
        new = read_scaling(fields)
        await self._check_provider(queue.project, queue.id, new.provider)
        old = await self._records.find(queue.id)
        if old is None:
            if expected is not None:
                raise NotFound("scaling policy of queue", queue.name)
            return await self._records.create(queue, new, note)
        return await self._records.update(old, new, note, expected)

    async def edit(
        self, old: QueueScaling, fields: Mapping[str, Any], note: Note | None, expected: str | None
    ) -> QueueScaling:
        new = read_scaling(fields, old)
        if new.provider != old.provider:
            await self._check_provider(old.project, old.queue_id, new.provider)
        return await self._records.update(old, new, note, expected)

    async def delete(self, old: QueueScaling, note: Note | None, expected: str | None) -> None:
        await self._records.delete(old, note, expected)

    async def history(
        self,
        projects: Sequence[int],
        queue: UUID | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
    ) -> list[ScalingEntry]:
        return await self._records.history(projects, queue, before=before, limit=limit)

    async def series(
        self, scaling: QueueScaling, since: datetime, until: datetime, points: int
    ) -> list[ScalingPoint]:
        step = max(1, -(-int((until - since).total_seconds()) // points))
        return await self._records.series(scaling, since, until, step)

    async def advise(self, scaling: QueueScaling) -> AdvisedScaling:
        [advised] = await self.advise_all([scaling])
        return advised

    async def advise_all(self, policies: Sequence[QueueScaling]) -> list[AdvisedScaling]:
        """What policies of one project say now. Queues that are gone are left out."""
        if not policies:
            return []
        project = policies[0].project
        queues = [one.queue_id for one in policies]
        sight = (await read_sights(self._engine, [project], queues))[project]
        rates = Rates(self._engine)
        advised = []
        for scaling in policies:
            seen = await sight.see(scaling, rates)
            if seen is not None:
                advice = evaluate(scaling.policy, seen.figures, sight.now)
                advised.append(
                    AdvisedScaling(
                        queue=scaling.queue,
                        queue_id=scaling.queue_id,
                        advice=advice,
                        figures=seen.figures,
                    )
                )
        return advised

    async def list_providers(self, project: int) -> dict[str, str]:
        """The kinds of those that policies of a project may name."""
        known = providers_for(self._declared, await path_of(self._engine, project))
        kinds = {name: str(one.__struct_config__.tag) for name, one in known.items()}
        return {NONE: NONE} | kinds

    async def _check_provider(self, project: int, queue: UUID, name: str) -> None:
        if name == NONE:
            return
        known = providers_for(self._declared, await path_of(self._engine, project))
        if name not in known:
            near = nearest(name, (NONE, *known))
            hint = f"did you mean {near!r}?" if near else f"use one of {', '.join((NONE, *known))}"
            raise Invalid("provider", f"{name!r} is not one that this project may use", hint)
        if isinstance(known[name], OF_ONE_POLICY):
            other = await self._records.other_user_of(name, queue)
            if other is not None:
                whose = f"queue {other.queue!r}" if other.project == project else "another project"
                raise Conflict(f"provider {name!r} has one fleet, which is that of {whose}")


async def find_policy(scaling: Scaling, queue: Queue) -> QueueScaling:
    found = await scaling.find(queue)
    if found is None:
        raise NotFound("scaling policy of queue", queue.name)
    return found


async def find_policy_of(engine: AnyEngine, scaling: Scaling, queue: str) -> QueueScaling:
    """Of a queue that is named by name or id, in the engine's own project."""
    return await find_policy(scaling, await find_queue(engine, queue))


async def put_policy(
    engine: AnyEngine, scaling: Scaling, queue: str, fields: Mapping[str, Any]
) -> QueueScaling:
    return await scaling.put(await find_queue(engine, queue), fields, None, None)


def traced(metrics: Metrics, slots: int) -> ScalingTrace:
    """A trace of what arrived in each minute; jobs of which none has ended run as long as those of
    the period do."""
    usual = metrics.totals.duration_ms.avg
    if usual is None or not metrics.totals.arrived:
        problem = "has nothing to tell: no job came in and ended in this period"
        raise Invalid("queue", problem, "name a longer period")
    arrivals = []
    for point in metrics.series:
        if point.figures.arrived:
            average = point.figures.duration_ms.avg
            arrivals.append(
                TracedJobs(
                    at_seconds=(point.at - metrics.since).total_seconds(),
                    jobs=point.figures.arrived,
                    job_seconds=max(0.001, (usual if average is None else average) / 1_000),
                    over_seconds=60.0,
                )
            )
    return ScalingTrace(arrivals=tuple(arrivals), slots=slots)


async def read_series(
    scaling: Scaling,
    policy: QueueScaling,
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    points: int = 300,
) -> list[ScalingPoint]:
    """From `since` to `until`, else the last hour."""
    rules.integer("points", points, 1, MOST_POINTS)
    until = now if until is None else until
    rules.moment("until", until)
    since = until - timedelta(hours=1) if since is None else since
    rules.moment("since", since)
    if since >= until:
        raise Invalid("since", "is not before until", "name an earlier time")
    since = max(since, now - timedelta(days=POINT_DAYS + 1))
    if since >= until:
        return []
    return await scaling.series(policy, since, until, points)
