"""What a handler may return or raise instead of a value, to say what should happen to its job."""

from datetime import timedelta
from typing import Self

from taskforge.domain import rules


class Verdict(Exception):
    """The root of what a handler may say about its job. Each can be raised from any depth, or returned."""


class Delaying(Verdict):
    """A verdict with a delay; said in a child process, it must survive the pipe to the worker."""

    seconds: float
    reason: str

    def __reduce__(self) -> tuple[type[Self], tuple[float, str]]:
        return type(self), (self.seconds, self.reason)


class Snooze(Delaying):
    """Try again later; no attempt is spent."""

    def __init__(self, delay: float | timedelta, reason: str = "snoozed") -> None:
        super().__init__(reason)
        self.seconds = _seconds(delay)
        self.reason = str(reason)


class Retry(Delaying):
    """This attempt failed; try again after this long, if attempts are left."""

    def __init__(self, after: float | timedelta, reason: str = "retry asked for by the handler") -> None:
        super().__init__(reason)
        self.seconds = _seconds(after)
        self.reason = str(reason)


class Fail(Verdict):
    """The job failed for good: no attempt will help."""

    def __init__(self, reason: str = "failed for good by the handler") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Cancel(Verdict):
    """The job is no longer wanted."""

    def __init__(self, reason: str = "cancelled by the handler") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Skip(Verdict):
    """This worker will not take the job; another one may. No attempt is spent."""

    def __init__(self, reason: str = "skipped by the handler") -> None:
        super().__init__(reason)
        self.reason = str(reason)


def _seconds(value: float | timedelta) -> float:
    moment = rules.moment("delay", value)
    assert isinstance(moment, float)
    return moment
