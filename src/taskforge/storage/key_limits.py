"""What the limits of a queue let each of its fairness keys start, in one claim."""

from collections.abc import Iterable, Iterator

import msgspec

from taskforge.domain.fairness import NO_KEY, Fairness
from taskforge.domain.limiter import BucketState, Grant, settle, take
from taskforge.storage.catalog import OpenLane


class KeyLimits:
    """Those of one queue, whose gate the claim holds. Jobs without a key are not limited."""

    __slots__ = ("_asked", "_fairness", "_grants", "_now", "_owed", "_rooms", "_states", "_used")

    def __init__(self, fairness: Fairness, now: float) -> None:
        self._fairness = fairness
        self._now = now
        self._rooms: dict[int, int] = {}  # by key; one that is not named runs nothing
        self._states: dict[int, BucketState] = {}
        self._grants: dict[int, Grant] = {}
        self._used: dict[int, int] = {}
        self._owed: dict[int, int] = {}  # units beyond one for each of these
        self._asked: dict[int, int] = {}  # what the statement under way may use besides

    @property
    def has_rate(self) -> bool:
        return self._fairness.bucket is not None

    def count(self, key: int, running: int, waiting: int) -> None:
        """So many of this key run, and so many that ran before wait to be tried again."""
        self._rooms[key] = self._fairness.room(running, waiting)

    def remember(self, key: int, tokens: float, at: float) -> None:
        """What the rate of this key has left."""
        self._states[key] = BucketState(tokens, at)

    def ask_anew(self) -> None:
        """What was asked before has been used, as far as it was given."""
        self._asked.clear()

    def within(self, lane: OpenLane) -> OpenLane | None:
        """What may be asked of a lane that is asked for jobs of one key, besides what others of
        this key are asked for; None: nothing."""
        if lane.key == NO_KEY or lane.most is None:
            return lane
        room = self._room(lane.key, lane.most)
        if room <= 0:
            return None
        self._asked[lane.key] = self._asked.get(lane.key, 0) + room
        return lane if room >= lane.most else msgspec.structs.replace(lane, most=room)

    def _room(self, key: int, wanted: int) -> int:
        used = self._used.get(key, 0) + self._asked.get(key, 0)
        room = min(wanted, self._rooms.get(key, self._fairness.room(0, 0)) - used)
        bucket = self._fairness.bucket
        if bucket is None or room <= 0:
            return room
        used += self._owed.get(key, 0)
        grant = take(bucket, self._states.get(key), self._now, room + used)
        self._grants[key] = grant
        return grant.granted - used

    @property
    def full(self) -> set[int]:
        """The keys that may start nothing."""
        most, used = self._fairness.room(0, 0), self._used
        keys = self._rooms.keys() | used.keys()
        full = {key for key in keys if self._rooms.get(key, most) <= used.get(key, 0)}
        return full | {
            key
            for key, grant in self._grants.items()
            if (
                self._left(key, grant) < 1
                if key in self._owed
                else grant.wait > 0 and grant.granted <= used.get(key, 0)
            )
        }

    def _left(self, key: int, grant: Grant) -> float:
        """What the rate of a key has left once what its starts took is paid."""
        taken = self._used.get(key, 0) + self._owed.get(key, 0)
        return grant.state.tokens + grant.granted - taken

    def use(self, key: int, jobs: int, units: int) -> None:
        """So many jobs of this key start, and take so many units of its rate. What a start takes is
        known once the job was taken: it starts when there is a unit, and what it takes beyond is
        paid before the next one does."""
        if key != NO_KEY:
            self._used[key] = self._used.get(key, 0) + jobs
            if units > jobs:
                self._owed[key] = self._owed.get(key, 0) + units - jobs

    def kept(self) -> Iterator[tuple[int, float, float]]:
        """Of each key that used its rate what it has left, and as of when."""
        bucket = self._fairness.bucket
        for key, grant in self._grants.items():
            used = self._used.get(key, 0) + self._owed.get(key, 0)
            if bucket is not None and used:
                kept = settle(bucket, self._states.get(key), grant, used, more=True)
                if kept is not None:
                    yield key, kept.tokens, kept.at

    @property
    def forgets_before(self) -> tuple[float, float] | None:
        """What a rate remembers of a key since then is as much as nothing, but for what it owes;
        and how many units a second that pays."""
        bucket = self._fairness.bucket
        if bucket is None:
            return None
        return self._now - bucket.burst / bucket.rate - 1.0, bucket.rate

    def waits(self) -> Iterable[float]:
        """After how many seconds rates that held jobs back let the next ones through."""
        bucket = self._fairness.bucket
        for key in self._owed.keys() & self._grants.keys():
            left = self._left(key, self._grants[key])
            if bucket is not None and left < 1:
                yield (1 - left) / bucket.rate
        for key, grant in self._grants.items():
            if key not in self._owed and grant.wait > 0 and self._used.get(key, 0) >= grant.granted:
                yield grant.wait
