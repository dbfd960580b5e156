"""What a worker and its lease keeper say to each other, one line of JSON each."""

from collections.abc import Iterator
from uuid import UUID

import msgspec

from taskforge.settings import Settings
from taskforge.worker.processes.process_id import ProcessId

LOST = 3  # the keeper's exit status when the lease is lost
WORD_BYTES = 1 << 16  # of what is read at once
WORD_ROOM = 3_900  # so long a word goes through a pipe in one piece
REASON_CHARACTERS = 500  # of which none takes more than four bytes
RETRY_SECONDS = 0.05  # until there may be room in a pipe, or a store may answer


class Charge(msgspec.Struct, frozen=True):
    """What the keeper is told when it starts."""

    settings: Settings
    incarnation: UUID
    lease_seconds: float
    interval: float
    worker: ProcessId


class Word(msgspec.Struct, frozen=True):
    """What the keeper says."""

    drain: bool = False
    cancelled: tuple[UUID, ...] = ()
    cancel_reasons: dict[UUID, str] = {}
    lost: str | None = None
    away: bool = False  # lost because the store could not be asked
    deregistered: bool = False  # whoever lost its lease so does not come back by itself
    slots: int | None = None


class WorkerHealth(msgspec.Struct, frozen=True, tag="health", omit_defaults=True):
    """What the worker says, or its watchdog while the event loop is held."""

    healthy: bool = True
    stopping: bool = False
    stuck_slots: int = 0
    blocking: UUID | None = None
    # jobs that go back to their queue: the worker cannot say so itself just now
    unstarted: tuple[UUID, ...] = ()
    # its last word: it ends itself, for what holds its event loop had all of its time, which was
    # this; 0 where it is not known whose that is
    overran_seconds: float | None = None


class ChildNews(msgspec.Struct, frozen=True, tag="child"):
    """What else it says: a process of a process handler has started, or ended. Told before it gets
    a job."""

    child: ProcessId
    ended: bool = False


def split_word(word: Word) -> Iterator[Word]:
    """The same in words that go through a pipe in one piece each."""
    part: dict[UUID, str] = {}
    room = WORD_ROOM
    for fence in word.cancelled:
        reason = word.cancel_reasons.get(fence, "")[:REASON_CHARACTERS]
        takes = 90 + len(msgspec.json.encode(reason))  # its id stands in both lists
        if part and takes > room:
            yield msgspec.structs.replace(
                word,
                cancelled=tuple(part),
                cancel_reasons={key: one for key, one in part.items() if one},
            )
            part, room = {}, WORD_ROOM
        part[fence], room = reason, room - takes
    yield msgspec.structs.replace(
        word, cancelled=tuple(part), cancel_reasons={key: one for key, one in part.items() if one}
    )
