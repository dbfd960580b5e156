"""Everything that can go wrong in terms a user understands. The API's problem documents and the
CLI's messages come from here."""

from collections.abc import Iterable
from difflib import get_close_matches
from uuid import UUID


class TaskForgeError(Exception):
    """The root of every error TaskForge raises on purpose."""


class Invalid(TaskForgeError):
    """A value breaks a rule: which field, what is wrong with the value, and what would be right."""

    def __init__(self, field: str, problem: str, expected: str) -> None:
        super().__init__(f"{field}: {problem}; {expected}")
        self.field = field
        self.problem = problem
        self.expected = expected


class NotFound(TaskForgeError):
    def __init__(self, kind: str, name: str, *, nearest: str | None = None) -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"{kind} {name!r} does not exist{hint}")
        self.kind = kind
        self.name = name
        self.nearest = nearest


class Gone(TaskForgeError):
    """The job existed, or may have: its time is older than what retention keeps."""

    def __init__(self, job: UUID) -> None:
        super().__init__(
            f"job {job} is older than what retention keeps; it can no longer be read or retried"
        )
        self.job = job


class EventsGone(TaskForgeError):
    """Events behind the cursor were pruned: whoever reads on from there would miss them without
    knowing."""

    def __init__(self, cursor: str) -> None:
        super().__init__(
            f"events after {cursor} are no longer kept; read the present state anew and go on "
            f"from now (no cursor)"
        )
        self.cursor = cursor


class Conflict(TaskForgeError):
    """The request is well formed but does not fit the present state."""


class Stale(Conflict):
    """The change is meant for a version that is no longer the present one."""


class KeyTaken(Conflict):
    """An idempotency key was used before for a different job body."""

    def __init__(self, key: str, job: UUID) -> None:
        super().__init__(
            f"idempotency_key: {key!r} was already used for job {job} with a different body; use "
            f"a new key"
        )
        self.key = key
        self.job = job


class QueuePaused(Conflict):
    def __init__(self, queue: str) -> None:
        super().__init__(
            f"queue {queue!r} is paused and does not accept jobs; resume it or set "
            f"accept_while_paused"
        )
        self.queue = queue


class LeaseLost(Conflict):
    """The worker's lease ran out: what it was running is no longer its own, and it must register
    again."""


class Deregistered(LeaseLost):
    """Somebody took the worker out: its process ends, and it comes back only when someone starts it
    again."""


def lease_lost(incarnation: UUID, name: str | None = None, *, has_left: bool = False) -> LeaseLost:
    """What a worker without a lease is told; `name` if it is known at all."""
    if has_left:
        return Deregistered(
            f"worker {name!r} was deregistered; it comes back when someone starts it again"
        )
    what = "is not registered" if name is None else f"of worker {name!r} lost its lease"
    return LeaseLost(f"worker incarnation {incarnation} {what}; register again")


class StoreUnavailable(TaskForgeError):
    """The store cannot be reached or refuses work just now; nothing is known to have been written.
    Trying again is right."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def asked_for(self) -> float:
        """How long to wait where somebody said so; 0 where nobody did, and whoever tries again has
        a rhythm of their own."""
        return self.retry_after if self.retry_after > 1.0 else 0.0


class StoreUnsuitable(TaskForgeError):
    """The store works but cannot serve: too old a version, a newer schema, a missing right;
    `next_step` says what to do, where that is known."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class StoreFault(TaskForgeError):
    """The store refused a statement for a reason that nobody foresaw. It is a fault of ours, and
    trying again will not mend it."""


class RemoteError(TaskForgeError):
    """What a function raised in a process of its own, in words: `name` of its type, `message`, and
    its traceback as `frames`."""

    def __init__(self, name: str, message: str, frames: str = "") -> None:
        super().__init__(name, message, frames)
        self.name, self.message, self.frames = name, message, frames

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


def text_of(error: BaseException) -> str:
    """What an exception says; it is a user's, and may not be able to."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever it raises, the job's end must be told
        return "(its text cannot be made)"


def nearest(name: str, known: Iterable[str]) -> str | None:
    matches = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return matches[0] if matches else None
