"""What is written of a look at a scaling policy: what it said, a line of its history, and a point
of its series where that is worth a place."""

from datetime import datetime

import msgspec

from taskforge.domain.queue_scaling import (
    POINT_SECONDS,
    STEADY_SECONDS,
    ScalingEntry,
    ScalingNews,
    ScalingPoint,
    ScalingState,
)
from taskforge.domain.scaling import ScalingAction, ScalingAdvice, evaluate
from taskforge.operations.scaling_sight import SeenQueue


def state_told(
    state: ScalingState, seen: SeenQueue, advice: ScalingAdvice, now: datetime
) -> ScalingState:
    told = {name: getattr(advice, name) for name in ("action", "count", "desired", "reason")}
    return msgspec.structs.replace(
        state,
        **told,
        coming=advice.coming,
        missing=advice.missing,
        workers=seen.figures.workers,
        slots=seen.slots,
        looked_at=now,
    )


def entry_of(
    seen: SeenQueue,
    news: ScalingNews,
    count: int,
    advice: ScalingAdvice | None,
    reason: str,
    now: datetime,
    term: int,
) -> ScalingEntry:
    return ScalingEntry(
        number=0,
        queue=seen.queue.name,
        queue_id=seen.queue.id,
        at=now,
        news=news,
        count=count,
        desired=seen.scaling.state.desired if advice is None else advice.desired,
        reason=reason,
        term=term,
        figures=seen.figures,
    )


def point_of(seen: SeenQueue, state: ScalingState, now: datetime) -> ScalingPoint:
    draining = {one.worker for one in state.draining}
    return ScalingPoint(
        at=now,
        desired=state.desired,
        actual=sum(worker.id not in draining for worker in seen.serving),
        coming=state.coming,
        draining=len(state.draining),
        length=seen.figures.length,
        utilization_percent=round(seen.figures.utilization_percent, 1),
    )


def is_news(point: ScalingPoint, last: ScalingPoint | None) -> bool:
    """Whether it is worth a place in the series: at once where workers change, now and then where
    only the queue does."""
    is_empty = not (point.actual or point.length or point.desired or point.coming)
    if last is None:
        return not is_empty or point.draining > 0
    passed = (point.at - last.at).total_seconds()
    workers = ("desired", "actual", "coming", "draining")
    if any(getattr(point, name) != getattr(last, name) for name in workers):
        return passed >= 1
    same = msgspec.structs.replace(point, at=last.at) == last
    return passed >= (POINT_SECONDS if not same else STEADY_SECONDS) and not (same and is_empty)


def is_quiet(seen: SeenQueue, now: datetime, last: ScalingPoint | None) -> bool:
    """Nothing is under way, nothing is to be done, and there is nothing to write."""
    state = seen.scaling.state
    if state.asked or state.draining or state.error is not None or seen.unassigned:
        return False
    advice = evaluate(seen.scaling.policy, seen.figures, now)
    is_same = (advice.action, advice.desired) == (state.action, state.desired)
    told = state_told(state, seen, advice, now)
    return (
        is_same
        and advice.action is ScalingAction.HOLD
        and not is_news(point_of(seen, told, now), last)
    )
