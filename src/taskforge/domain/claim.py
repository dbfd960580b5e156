"""What a worker asks for when it wants jobs, and how a claim is lost."""

from uuid import UUID

import msgspec

from taskforge.domain.outcome import Attempt, Outcome
from taskforge.domain.queue import QueueSettings


class Claim(msgspec.Struct, frozen=True):
    """A worker's wish for up to `limit` jobs. What it may take (queues, types, capabilities, slots)
    is what it registered with, or what operators want."""

    incarnation: UUID
    limit: int
    # The worker may live on when this machine loses its power: what it gets must be on disk before
    # it hears of it.
    remote: bool = False
    # Where it can, an engine that has too little now takes what comes next, and the next claim
    # brings it; limit 0 only ends that.
    standing: bool = False
    # Of the jobs it got so many have ended, and their outcomes are on the way: they take none of
    # its slots, which claims keep.
    reporting: int = 0


class Lapsed(msgspec.Struct, frozen=True):
    """A running job that its worker lost: what came of it, and what `decide` needs to know."""

    fence: UUID
    attempt: Attempt
    outcome: Outcome
    policy: QueueSettings
