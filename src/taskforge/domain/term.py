"""Who leads, and for how long: the steps of a lease that needs no common clock.

The store holds one `Reign`: a term that only rises, the node that leads, and a beat that the leader
raises. A leader trusts its lease for `TRUST` of it, counted on its own monotonic clock from the
moment before it asked for the renewal. A candidate takes over once it has seen the same beat for a
whole lease on its own clock. The renewal was over before the candidate first saw it, so the leader
has stopped before anyone may start. A step of a wall clock changes nothing.

That holds as long as clocks run at the same speed and processes stop when they should. Where they
do not, the term does: every write of a leader is refused once a later term has begun.
"""

import enum
from uuid import UUID

import msgspec

from taskforge.domain.errors import Conflict

TRUST = 0.75  # of the lease; the rest is room for stopping what runs
RENEW = 0.25  # of the lease: how often it is renewed, and looked at
HANDICAP = 0.5  # of the lease: how much longer others wait where servers are there to lead


class Deposed(Conflict):
    """The term is over: another leads, or may."""

    def __init__(self, term: int) -> None:
        super().__init__(f"term {term} is over; nothing was written")
        self.term = term


class Reign(msgspec.Struct, frozen=True):
    """What the store says of the leader."""

    term: int
    beat: int
    node: UUID | None  # None: nobody, the last one has resigned
    lease_seconds: float  # as the leader has it


class Wish(enum.Enum):
    WAIT = enum.auto()
    TAKE = enum.auto()


class Watch(msgspec.Struct, frozen=True):
    """What a candidate last saw, and since when it has seen nothing else."""

    reign: Reign
    since: float


def watch(before: Watch | None, reign: Reign, seen_at: float) -> Watch:
    """`seen_at`: when the answer was there. A renewal that it shows had begun before, so a lease
    counted from here ends later than the leader's."""
    if before is None or _moved(before.reign, reign):
        return Watch(reign, seen_at)
    return before


def wish(seen: Watch, now: float, *, handicapped: bool) -> Wish:
    """`handicapped`: another kind of node is preferred, and one of it is there."""
    lease = seen.reign.lease_seconds
    waits = 0.0 if seen.reign.node is None else lease
    if handicapped:
        waits += HANDICAP * lease
    return Wish.TAKE if now - seen.since >= waits else Wish.WAIT


def trusted_until(asked_at: float, lease_seconds: float) -> float:
    """How long a leader acts after a renewal that it began to ask for then: a slow answer does not
    make it longer."""
    return asked_at + TRUST * lease_seconds


def _moved(before: Reign, now: Reign) -> bool:
    return (before.term, before.beat, before.node) != (now.term, now.beat, now.node)
