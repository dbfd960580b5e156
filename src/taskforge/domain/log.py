"""Log lines of an execution."""

import enum
from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.domain import rules

MAX_MESSAGE = 10_000


class Level(enum.IntEnum):
    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


class NewLine(msgspec.Struct, frozen=True):
    """A line to store; `seconds_ago` is its age when it is handed over, so that no client clock reaches the store."""

    fence: UUID
    level: Level
    message: str
    metadata: bytes | None = None
    seconds_ago: float = 0.0


class Line(msgspec.Struct, frozen=True):
    id: int
    execution: UUID
    level: Level
    message: str
    metadata: msgspec.Raw | None
    logged_at: datetime


def split(line: NewLine) -> list[NewLine]:
    """Long messages become several lines; an empty one keeps its place as a space."""
    message = rules.storable(line.message)
    if not message:
        return [NewLine(line.fence, line.level, " ", line.metadata, line.seconds_ago)]
    pieces = [message[start : start + MAX_MESSAGE] for start in range(0, len(message), MAX_MESSAGE)]
    return [
        NewLine(line.fence, line.level, piece, line.metadata if index == 0 else None, line.seconds_ago)
        for index, piece in enumerate(pieces)
    ]
