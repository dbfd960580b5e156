"""What a scaling policy has to say of a job that nobody takes."""

from datetime import datetime

from taskforge.domain.explanation import Explanation, Reason
from taskforge.domain.job import JobStatus
from taskforge.domain.queue_scaling import QueueScaling
from taskforge.domain.reasons import NOBODY

SCALING, PAUSED, FAILS, FULL = "scaling", "scaling_paused", "scaling_fails", "scaling_full"


def lacks_workers(explanation: Explanation) -> bool:
    """Whether more workers might help."""
    codes = {reason.code for reason in explanation.reasons}
    return explanation.status is JobStatus.PENDING and bool(codes & (NOBODY | {"busy"}))


def scaling_reason(scaling: QueueScaling, now: datetime) -> Reason | None:
    """Nothing of a policy that only advises: it brings nobody."""
    state = scaling.state
    most = scaling.policy.at(now).max_workers
    if scaling.only_advises:
        return None
    if scaling.is_paused:
        return Reason(PAUSED, "the scaling policy of its queue is paused")
    if state.error is not None:
        text = "workers are wanted, and the provider of its queue's scaling policy fails"
        return Reason(FAILS, text, state.retry_at)
    if state.coming:
        are = "worker is" if state.coming == 1 else "workers are"
        return Reason(SCALING, f"{state.coming:,} {are} on the way: the queue is scaled up")
    if state.workers >= most:
        return Reason(FULL, f"its queue has as many workers as its scaling policy allows: {most:,}")
    if state.workers:
        return None
    return Reason(SCALING, "its queue is scaled to zero; a worker is asked for within seconds")
