"""Who gets the next job: pure choices among workers. What a choice must remember for the next one
goes in and comes out.

Workers are known by name, and candidates are given in any order: what is remembered stays right
when workers come and go. Only workers with a free slot are chosen; None says that there is none.
"""

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

PULL = "pull"
"""Nobody chooses: whoever is free takes the next job."""
LOAD_BALANCING = (
    PULL,
    "round_robin",
    "weighted_round_robin",
    "least_load",
    "adaptive",
    "sticky",
)
EXPLORE_EVERY = 32
NEWEST_WEIGHT = 0.2  # of an observation, at least: about the last ten count
DOUBT = 0.05  # the least chance of success a worker is credited with


class Contender(msgspec.Struct, frozen=True):
    name: str
    active: int = 0
    most: int = 1
    weight: int = 1

    @property
    def is_free(self) -> bool:
        return self.active < self.most

    @property
    def load(self) -> float:
        return self.active / self.most


# --- Round robin, and what breaks ties elsewhere ---


def round_robin(last: str | None, candidates: Sequence[Contender]) -> str | None:
    """The next by name behind `last`; the caller remembers it."""
    return _following(last, [each.name for each in candidates if each.is_free])


def least_load(last: str | None, candidates: Sequence[Contender]) -> str | None:
    """The lowest active/most; equals take turns."""
    free = [each for each in candidates if each.is_free]
    lowest = min((each.load for each in free), default=0.0)
    return _following(last, [each.name for each in free if each.load == lowest])


def _following(last: str | None, names: Sequence[str]) -> str | None:
    if not names:
        return None
    return min((name for name in names if last is not None and name > last), default=None) or min(
        names
    )


# --- Smooth weighted round robin ---

Credits = Mapping[str, int]


def weighted(credit: Credits, candidates: Sequence[Contender]) -> tuple[Credits, str | None]:
    """Shares by weight, spread evenly: at no time is a worker a whole job ahead of its share, nor a
    whole job behind.

    A worker's credit is what it is owed, in parts of a job: each choice gives everyone its weight
    and takes the sum of all weights from the chosen. Nginx chooses the highest credit, which gives
    a b c a a b c a for 2 : 1 : 1, and leaves someone 1.4 jobs behind for 100 : 99 : 98 and forty of
    1. Here it is the one whose next job is due first, among those that are owed one: the earliest
    pseudo-deadline of Pfair scheduling.
    """
    free = [each for each in candidates if each.is_free]
    if not free:
        return credit, None
    total = sum(each.weight for each in free)
    owed = {each.name: credit.get(each.name, 0) for each in candidates}
    for each in free:
        owed[each.name] += each.weight
    in_time = [each for each in free if owed[each.name] > 0] or free
    chosen = min(
        in_time,
        key=lambda each: (-((owed[each.name] - total) // each.weight), -each.weight, each.name),
    )
    owed[chosen.name] -= total
    return owed, chosen.name


# --- Adaptive: by latency and failures ---


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a worker: moving averages of seconds per success and of the share that
    failed; and as of which choice."""

    seconds: float | None = None
    failed: float = 0.0
    seen: int = 0
    chosen: int = 0


class Experience(msgspec.Struct, frozen=True):
    records: Mapping[str, Record] = {}
    choices: int = 0


def observe(experience: Experience, name: str, seconds: float, *, failed: bool) -> Experience:
    """Remember how a job went. A failure says nothing about speed: one that fails at once would
    look like the fastest.

    The longer a worker was not heard of, the more the newest observation counts: what is known of
    it is old.
    """
    old = experience.records.get(name, Record())
    silence = (experience.choices - old.seen) / (4 * max(1, len(experience.records)))
    weight = max(NEWEST_WEIGHT, 1 - math.exp(-silence))
    pace = old.seconds
    if not failed:
        pace = seconds if pace is None else pace + weight * (seconds - pace)
    known = Record(
        pace, old.failed + weight * (failed - old.failed), experience.choices, old.chosen
    )
    return Experience({**experience.records, name: known}, experience.choices)


def adaptive(
    experience: Experience, candidates: Sequence[Contender]
) -> tuple[Experience, str | None]:
    """Where a job is expected to be done first: (jobs there + 1) × seconds each ÷ chance of
    success.

    A worker nobody knows counts as good as the best known. One choice in 32 is for whoever was not
    chosen for the longest time, so that a worker that was slow or failing is seen again when it is
    well.
    """
    free = [each for each in candidates if each.is_free]
    if not free:
        return experience, None
    choices = experience.choices + 1
    records = {each.name: experience.records.get(each.name, Record()) for each in candidates}
    if choices % EXPLORE_EVERY == 0:
        chosen = min(free, key=lambda each: (records[each.name].chosen, each.name)).name
    else:
        best = min(
            (known.seconds for known in records.values() if known.seconds is not None), default=1.0
        )

        def expected(each: Contender) -> tuple[float, str]:
            known = records[each.name]
            seconds = best if known.seconds is None else known.seconds
            return (each.active + 1) / each.most * max(seconds, 1e-9) / max(
                DOUBT, 1 - known.failed
            ), each.name

        chosen = min(free, key=expected).name
    records[chosen] = msgspec.structs.replace(records[chosen], chosen=choices)
    return Experience(records, choices), chosen


# --- Sticky: the same key to the same worker ---


def sticky(key: str, candidates: Sequence[Contender]) -> str | None:
    """Rendezvous hashing: each worker bids for the key by a hash of both, weighted, and the highest
    bid wins.

    When a worker leaves or is full, only its keys move, each to the next highest bidder; when it is
    back, the same ones return.
    """
    free = [each for each in candidates if each.is_free]
    return max(free, key=lambda each: (_bid(key, each), each.name)).name if free else None


def _bid(key: str, candidate: Contender) -> float:
    name = candidate.name.encode()
    # The length in front keeps ("a", "bc") apart from ("ab", "c").
    digest = blake2b(len(name).to_bytes(4) + name + key.encode(), digest_size=8).digest()
    chance = (int.from_bytes(digest) + 1) / (2**64 + 1)
    return -candidate.weight / math.log(chance)
