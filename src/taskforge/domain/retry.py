"""When a failed job, or a store that is away, is tried again. The only place where a backoff is
computed."""

import random
from collections.abc import Callable

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True):
    """Exponential backoff: delay × multiplier^(attempt - 1), spread by jitter, never longer than
    `most`."""

    delay: float = 1.0
    most: float = 300.0
    multiplier: float = 2.0
    jitter: float = 0.2

    def wait(self, attempt: int, chance: float) -> float:
        """Seconds until the next try after `attempt` failed; `chance` in [0, 1) is the caller's
        random draw.

        Jitter moves the delay by up to ± its share. Where that would reach beyond the longest
        delay, it takes a share twice as wide below it instead: retries that all wait the longest
        time must not come back together either.
        """
        # The exponent is bounded because a multiplier of 100 overflows a float after 155 attempts;
        # the cap has long won by then.
        grown = self.delay * self.multiplier ** min(attempt - 1, 150)
        middle = min(grown, self.most / (1 + self.jitter))
        return min(self.most, middle * (1 + self.jitter * (2 * chance - 1)))


STORE_AWAY = RetryPolicy(delay=0.1, most=2.0, jitter=0.3)


class Patience:
    """How long whoever met a store that is away waits before the next try: longer each time, up to
    a bound."""

    __slots__ = ("_chance", "_policy", "_tries")

    def __init__(
        self, policy: RetryPolicy = STORE_AWAY, chance: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._chance = chance
        self._tries = 0

    def wait(self, asked_for: float = 0.0) -> float:
        """The next wait in seconds, and not less than what the store asked for."""
        self._tries += 1
        return max(asked_for, self._policy.wait(self._tries, self._chance()))

    def forget(self) -> None:
        """The store served: the next wait is a short one again."""
        self._tries = 0
