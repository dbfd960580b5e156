"""When a failed job is tried again. The only place where a backoff is computed."""

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True):
    """Exponential backoff: delay × multiplier^(attempt - 1), capped, then spread by jitter."""

    delay: float = 1.0
    most: float = 300.0
    multiplier: float = 2.0
    jitter: float = 0.2

    def wait(self, attempt: int, chance: float) -> float:
        """Seconds until the next try after `attempt` failed; `chance` in [0, 1) is the caller's random draw.

        Jitter moves the delay by up to ± its share, also at the cap: retries that all wait the longest time would otherwise
        come back together.
        """
        # The exponent is bounded because a multiplier of 100 overflows a float after 155 attempts; the cap has long won by then.
        grown = self.delay * self.multiplier ** min(attempt - 1, 150)
        base = min(self.most, grown)
        return base * (1 + self.jitter * (2 * chance - 1))
