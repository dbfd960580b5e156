"""What a handler may return or raise instead of a value, to say what should happen to its job."""

from datetime import timedelta
from typing import Any

from taskforge.domain import rules


class Verdict(Exception):
    """The root of what a handler may say about its job. Each can be raised from any depth, or
    returned."""


class Snooze(Verdict):
    """Try again later; no attempt is spent."""

    def __init__(self, delay: float | timedelta, reason: str = "snoozed") -> None:
        super().__init__(reason)
        self.seconds = _seconds(delay)
        self.reason = str(reason)


class Retry(Verdict):
    """This attempt failed; try again after this long, if attempts are left."""

    def __init__(
        self, after: float | timedelta, reason: str = "retry asked for by the handler"
    ) -> None:
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


def packed(verdict: Verdict) -> tuple[str, tuple[Any, ...]]:
    """A verdict in plain words, for the pipe from a child process: its own class may not survive
    that."""
    for kind in (Snooze, Retry):
        if isinstance(verdict, kind):
            return kind.__name__, (verdict.seconds, verdict.reason)
    for plain in (Fail, Cancel, Skip):
        if isinstance(verdict, plain):
            return plain.__name__, (verdict.reason,)
    raise verdict


def unpacked(name: str, values: tuple[Any, ...]) -> Verdict:
    kinds: tuple[type[Verdict], ...] = (Snooze, Retry, Fail, Cancel, Skip)
    made: Verdict = {kind.__name__: kind for kind in kinds}[name](*values)
    return made


def verdict_in(error: BaseException) -> Verdict | None:
    """The verdict that a task group carries out of its tasks, if nothing else went wrong in
    there."""
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Verdict) else None
    said = [verdict_in(one) for one in error.exceptions]
    return said[0] if all(said) else None


def _seconds(value: float | timedelta) -> float:
    moment = rules.moment("delay", value)
    assert isinstance(moment, float)
    return moment
