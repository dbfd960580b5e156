"""A clock that runs as the machine's does, and can be moved ahead."""

from datetime import UTC, datetime, timedelta


class Clock:
    def __init__(self, start: datetime | None = None) -> None:
        """It runs rather than stands: code under test reads the machine's clock too, and what it
        schedules must come due."""
        self._ahead = timedelta() if start is None else start - datetime.now(UTC)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += timedelta(seconds=seconds)
