"""From what a worker reports to what the store does: every outcome is decided here, by the one function that decides."""

from collections.abc import Callable, Sequence
from typing import Self
from uuid import UUID

import msgspec

from taskforge.domain.ids import epoch_of
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import Attempt, Finish, HandBackOutcome, Outcome, decide
from taskforge.domain.queue import QueueSettings
from taskforge.storage.engine import Engine


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An attempt that came to an end, with what `decide` must know of it."""

    fence: UUID
    attempt: Attempt
    policy: QueueSettings
    outcome: Outcome
    ran: float | None = None

    @classmethod
    def of(cls, job: Claimed, outcome: Outcome, ran: float | None) -> Self:
        """By what the claim said of the job."""
        return cls(job.fence, attempt_of(job), job.policy, outcome, ran)

    @classmethod
    def unspent(cls, fence: UUID, outcome: HandBackOutcome) -> Self:
        """By its fence alone: what is handed back is as it was, whatever its policy and its attempts are."""
        return cls(fence, Attempt(1, 1, 0, epoch_of(fence)), QueueSettings(), outcome)


def attempt_of(job: Claimed) -> Attempt:
    return Attempt(job.attempt, job.max_attempts, job.crashes, epoch_of(job.fence))


async def complete(engine: Engine, ended: Sequence[Ended], chance: Callable[[], float]) -> list[UUID]:
    """Finish them; the fences that were lost come back."""
    lost = await engine.finish([_finish(one, one.attempt, chance()) for one in ended])
    if not lost:
        return []
    asked = {one.fence for one in lost if one.cancel_requested}
    gone = [one.fence for one in lost if not one.cancel_requested]
    if asked:
        # A cancel came while the handler ran: what would have let the job live on is decided again.
        again = [
            _finish(one, msgspec.structs.replace(one.attempt, cancel_requested=True), chance())
            for one in ended
            if one.fence in asked
        ]
        gone += [one.fence for one in await engine.finish(again)]
    return gone


def _finish(ended: Ended, attempt: Attempt, chance: float) -> Finish:
    return Finish(ended.fence, decide(attempt, ended.outcome, ended.policy, chance), ended.ran)
