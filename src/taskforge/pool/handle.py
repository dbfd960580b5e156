"""A submitted job, seen from outside: a future that ends in its value, its exception or a
cancellation."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from taskforge.pool.buffer import Buffer
    from taskforge.pool.crew import Crew

T = TypeVar("T")


# Where a job is. Plain numbers: looking up the members of an enum took a tenth of a job's whole
# cost.
OUTSIDE = 0  # not accepted yet, or settled
BUFFERED = 1
RUNNING = 2
RESTING = 3  # failed, and waits for its next attempt


class Handle(asyncio.Future[T]):
    """Await it for the result. Cancelling it, or whoever awaits it, cancels the job, wherever it
    is."""

    # The job's own facts live here too, one object per job instead of two: in slots what every job
    # needs, as defaults of the class what most never do.
    __slots__ = ("_arguments", "_context", "_crew", "_function", "_place", "_task")
    _attempt = 1
    _number = 0
    _priority = 0
    _timeout: float | None = None
    _key: str | None = None
    _buffer: "Buffer | None" = None
    # hears at once when the job is settled, a turn before done callbacks
    _sink: "Callable[[Handle[Any]], None] | None" = None

    def __init__(
        self, crew: "Crew", function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        super().__init__()
        self._crew = crew
        self._function = function
        self._arguments = arguments
        self._context = copy_context()  # of whoever handed it in
        self._place = OUTSIDE
        self._task: asyncio.Task[None] | None = None

    @property
    def attempt(self) -> int:
        """Which try this is, or was: 1 for the first."""
        return self._attempt

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self._crew.abandon(self)
        return True
