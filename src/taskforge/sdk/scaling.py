"""Scaling policies from Python: `forge.scaling`."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from taskforge.domain.queue_scaling import (
    AdvisedScaling,
    QueueScaling,
    ScalingEntry,
    ScalingPoint,
)
from taskforge.operations import scaling as operations
from taskforge.operations.naming import find_queue
from taskforge.ports.engine import AnyEngine
from taskforge.ports.scaling import Scaling
from taskforge.wiring import scaling_of

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class AppScaling:
    """`forge.scaling`: what the REST API has of scaling policies too."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def put(self, queue: str, *, max_workers: int, **options: Any) -> QueueScaling:
        """Give a queue a policy, or replace the one it has. `options`: min_workers,
        target_queue_length, target_utilization_percent, drain_seconds, scale_up_threshold,
        scale_down_threshold, scale_up_cooldown_seconds, scale_down_cooldown_seconds,
        missing_after_seconds, drain_grace_seconds, may_stop_any_worker, windows, provider,
        is_paused, is_dry_run."""
        engine, scaling = await self._doors()
        fields = {"max_workers": max_workers, **options}
        return await operations.put_policy(engine, scaling, queue, fields)

    async def all(self) -> list[QueueScaling]:
        """With what each said last."""
        engine, scaling = await self._doors()
        return await scaling.policies([engine.home])

    async def get(self, queue: str) -> QueueScaling:
        engine, scaling = await self._doors()
        return await operations.find_policy_of(engine, scaling, queue)

    async def edit(self, queue: str, /, **options: Any) -> QueueScaling:
        """What is not named stays. `options`: as in `put`."""
        _, scaling = await self._doors()
        return await scaling.edit(await self.get(queue), options, None, None)

    async def pause(self, queue: str) -> QueueScaling:
        """Start and stop no worker until it is resumed."""
        return await self.edit(queue, is_paused=True)

    async def resume(self, queue: str) -> QueueScaling:
        return await self.edit(queue, is_paused=False)

    async def delete(self, queue: str) -> None:
        """Processes of a local provider end in order; other workers stay as they are."""
        _, scaling = await self._doors()
        await scaling.delete(await self.get(queue), None, None)

    async def advise(self, queue: str) -> AdvisedScaling:
        """What its policy says now, and the figures that it goes by. Nothing is done about it."""
        _, scaling = await self._doors()
        return await scaling.advise(await self.get(queue))

    async def history(self, queue: str | None = None, *, limit: int = 50) -> list[ScalingEntry]:
        """What policies decided and met, the newest first; of one queue, or of all."""
        engine, scaling = await self._doors()
        meant = None if queue is None else (await find_queue(engine, queue)).id
        return await scaling.history([engine.home], meant, limit=limit)

    async def series(
        self,
        queue: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        points: int = 300,
    ) -> list[ScalingPoint]:
        """Workers wanted, there, on their way and draining, and the length of the queue, over the
        last hour or from `since` to `until`."""
        engine, scaling = await self._doors()
        policy, now = await self.get(queue), await engine.now()
        return await operations.read_series(
            scaling, policy, now, since=since, until=until, points=points
        )

    async def _doors(self) -> tuple[AnyEngine, Scaling]:
        engine = await self._app.engine()
        return engine, scaling_of(engine, self._app.settings)
