"""A submitted job, seen from outside: a future that ends in its value, its exception or a cancellation."""

import asyncio
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from taskforge.pool.buffer import Buffer
    from taskforge.pool.crew import Crew

T = TypeVar("T")


class Place(enum.Enum):
    OUTSIDE = 0  # not accepted yet, or settled
    BUFFERED = 1
    RUNNING = 2
    RESTING = 3  # failed, and waits for its next attempt


class Handle(asyncio.Future[T]):
    """Await it for the result. Cancelling it, or whoever awaits it, cancels the job, wherever it is."""

    # The job's own facts live here too: one object per job instead of two is a tenth of the pool's cost.
    __slots__ = (
        "_arguments",
        "_attempt",
        "_buffer",
        "_crew",
        "_function",
        "_key",
        "_number",
        "_place",
        "_priority",
        "_sink",
        "_task",
        "_timeout",
        "_timer",
    )

    def __init__(
        self,
        crew: "Crew",
        number: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        priority: int,
        timeout: float | None,
        key: str | None,
        sink: "Callable[[Handle[T]], None] | None" = None,
    ) -> None:
        super().__init__()
        self._crew = crew
        self._number = number  # in the order they were handed in
        self._function = function
        self._arguments = arguments
        self._priority = priority
        self._timeout = timeout
        self._key = key
        self._sink = sink  # hears at once when the job is settled; a done callback takes another turn of the loop
        self._attempt = 1
        self._place = Place.OUTSIDE
        self._buffer: Buffer | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def attempt(self) -> int:
        """Which try this is, or was: 1 for the first."""
        return self._attempt

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self._crew.abandon(self)
        return True
