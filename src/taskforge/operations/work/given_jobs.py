"""What a server remembers of the jobs that it gave out, so that their outcomes are decided without
asking the store again."""

import itertools
from collections import Counter
from collections.abc import Callable, Container
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.outcome import Attempt
from taskforge.domain.queue import QueueSettings

REMEMBERED_AT_MOST = 200_000
# What is not remembered is looked up: of jobs that ended by another server, or with their worker,
# none must be kept for long.
REMEMBERED_SECONDS = 120.0


class Given(msgspec.Struct, frozen=True):
    """A job in a worker's hands: what deciding its outcome takes. Its payload does not."""

    fence: UUID
    incarnation: UUID
    attempt: Attempt
    policy: QueueSettings
    until: float


class GivenJobs(dict[UUID, Given]):
    """By fence, the oldest first."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._counts: Counter[UUID] = Counter()

    def count(self, incarnation: UUID) -> int:
        """How many of them this incarnation holds."""
        return self._counts[incarnation]

    def add(self, fence: UUID, incarnation: UUID, attempt: Attempt, policy: QueueSettings) -> Given:
        self._counts[incarnation] += fence not in self
        given = self[fence] = Given(
            fence, incarnation, attempt, policy, self._monotonic() + REMEMBERED_SECONDS
        )
        drop_oldest(self)
        return given

    def remove(self, fence: UUID) -> None:
        given = self.pop(fence, None)
        if given is not None:
            self._counts[given.incarnation] -= 1

    def forget(self, known: Container[UUID]) -> None:
        """What was given out too long ago, or to incarnations that are not known any more."""
        now = self._monotonic()
        kept = {
            key: one for key, one in self.items() if one.until > now and one.incarnation in known
        }
        self.clear()
        self.update(kept)
        self._counts = Counter(one.incarnation for one in kept.values())


def drop_oldest(remembered: dict[UUID, Any]) -> None:
    """A tenth at once: a dict finds its first entry behind the gaps of all that went before it."""
    if len(remembered) > REMEMBERED_AT_MOST:
        for one in list(itertools.islice(remembered, REMEMBERED_AT_MOST // 10 + 1)):
            del remembered[one]
