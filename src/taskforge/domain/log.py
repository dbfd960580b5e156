"""Log lines of an execution."""

import enum
from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.ids import epoch_of

MAX_MESSAGE = 10_000


class Level(enum.IntEnum):
    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


def level_named(text: str) -> Level:
    try:
        return Level[text.upper()]
    except (KeyError, AttributeError):
        raise Invalid(
            "level", f"is {text!r}", "use one of " + ", ".join(one.name.lower() for one in Level)
        ) from None


class NewLine(msgspec.Struct, frozen=True):
    """A line to store; `seconds_ago` is its age when it is handed over, so that no client clock
    reaches the store."""

    fence: UUID
    level: Level
    message: str
    metadata: bytes | None = None
    seconds_ago: float = 0.0


class Line(msgspec.Struct, frozen=True):
    id: int  # `line_id`; lines of a job stand in its order
    execution: UUID
    level: Level
    message: str
    metadata: msgspec.Raw | None
    logged_at: datetime
    ended: ExecutionStatus | None = None  # of the line that an execution's end leaves
    guarded: str | None = None  # its message for those who may not see errors


_NUMBER_BITS = 40
END = (1 << _NUMBER_BITS) - 1
"""The number of an execution's end: behind all that it logged."""
MAX_LINE = (1 << (24 + _NUMBER_BITS)) - 1


def line_id(epoch: int, number: int) -> int:
    return epoch << _NUMBER_BITS | number


class Span(msgspec.Struct, frozen=True):
    """Which lines of a job a page is taken from: behind a line, up to the end of an epoch."""

    epoch: int
    number: int
    last_epoch: int

    @property
    def first_end(self) -> int:
        """The first epoch whose end may be among them."""
        return self.epoch if self.number < END else self.epoch + 1


def span_of(after: int, execution: UUID | None) -> Span:
    """Behind the line with this id, of all executions of a job or of one."""
    rules.integer("after", after, 0, MAX_LINE)
    if execution is None:
        return Span(after >> _NUMBER_BITS, after & END, (1 << 24) - 1)
    epoch = epoch_of(execution)
    after = max(after, line_id(epoch, 0))
    return Span(after >> _NUMBER_BITS, after & END, epoch)


def split(line: NewLine) -> list[NewLine]:
    """Long messages become several lines; an empty one keeps its place as a space."""
    message = rules.storable(line.message)
    if not message:
        return [NewLine(line.fence, line.level, " ", line.metadata, line.seconds_ago)]
    pieces = [message[start : start + MAX_MESSAGE] for start in range(0, len(message), MAX_MESSAGE)]
    return [
        NewLine(
            line.fence, line.level, piece, line.metadata if index == 0 else None, line.seconds_ago
        )
        for index, piece in enumerate(pieces)
    ]
