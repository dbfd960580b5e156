"""Fairness within a queue: whose turn it is among the keys of its jobs.

Each key has a time of its own, which goes on by what the key took over its weight; whoever's time
is least goes next (stride scheduling, with the virtual time of start-time fair queueing for keys
that come later). Against deficit round robin with a quantum of one job this gives the same shares,
and no round has to end before a weight counts; a key that floods has no advantage over one that
comes later, because its time is far ahead by then. Only keys that hold jobs take memory.
"""

import hashlib
import heapq
import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.limiter import TokenBucket

MOST_WEIGHTS = 1_000
MOST_AT_ONCE = 1_000_000
NO_KEY = 0
"""Of jobs without a key: together they take turns as one."""
FIRST_PLACED = 2**62
"""From here on keys stand for workers on which jobs are placed (`domain/dispatch.py`)."""
# Of keys that hold no jobs those are kept whose time is ahead. How many there are is looked at when
# there are so many more than at the last look.
KEPT_TIMES = 1_000


class Fairness(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the keys of a queue take turns."""

    # How many jobs a key gets for each one of a key that is not named here
    weights: dict[str, float] = {}
    # How many jobs of one key may run at once, across all workers; 1: one after the other, those of
    # a type and priority in order
    max_concurrent_per_key: int | None = None

    # How many jobs of one key may start in a minute, across all workers
    rate_limit_per_key: float | None = None
    # How many of them may start at once after a pause; one second's worth by default
    rate_limit_burst_per_key: int | None = None

    @property
    def limits_keys(self) -> bool:
        """Whether claims must consult a limit by key."""
        return self.max_concurrent_per_key is not None or self.rate_limit_per_key is not None

    @property
    def bucket(self) -> TokenBucket | None:
        """The rate of each key."""
        if self.rate_limit_per_key is None:
            return None
        rate = self.rate_limit_per_key / 60
        return TokenBucket(rate, float(self.rate_limit_burst_per_key or max(1, math.ceil(rate))))

    @property
    def is_serial(self) -> bool:
        """Whether the jobs of a key run one after the other: then one that is to be tried again
        goes before those that came later, however long it waits for that."""
        return self.max_concurrent_per_key == 1

    def room(self, running: int, waiting: int) -> int:
        """How many more jobs of a key may start while so many run, and so many that ran before wait
        to be tried again."""
        most = MOST_AT_ONCE if self.max_concurrent_per_key is None else self.max_concurrent_per_key
        return max(0, most - running - (waiting if self.is_serial else 0))

    @property
    def weights_by_key(self) -> dict[int, float]:
        return {key_of(name): weight for name, weight in self.weights.items()}


def parse_fairness(field: str, value: Any) -> Fairness:
    if isinstance(value, Fairness):
        return value
    if not isinstance(value, dict):
        raise Invalid(
            field,
            f"is {value!r}, not an object",
            'use {} for equal shares, or {"weights": {"some key": 2}}',
        )
    for name in value:
        if name not in _CHECKS:
            raise rules.unknown(field, name, tuple(_CHECKS))
    fairness = Fairness(
        **{
            name: _CHECKS[name](f"{field}.{name}", given)
            for name, given in value.items()
            if given is not None
        }
    )
    if fairness.rate_limit_burst_per_key is not None and fairness.rate_limit_per_key is None:
        raise Invalid(
            f"{field}.rate_limit_burst_per_key",
            "is set without rate_limit_per_key",
            "set rate_limit_per_key (jobs per minute) too",
        )
    return fairness


def _weights(field: str, value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise Invalid(field, f"is {value!r}, not an object", 'use {"some key": 2}')
    if len(value) > MOST_WEIGHTS:
        raise Invalid(field, f"names {len(value):,} keys", f"name at most {MOST_WEIGHTS:,}")
    return {
        rules.text(field, key, most=255): rules.number(f"{field}.{key}", weight, 0.01, 1_000)
        for key, weight in value.items()
    }


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "weights": _weights,
    "rate_limit_per_key": lambda field, value: rules.number(field, value, 0.001, 1e9),
    "rate_limit_burst_per_key": lambda field, value: rules.integer(field, value, 1, 1_000_000_000),
    "max_concurrent_per_key": lambda field, value: rules.integer(field, value, 1, MOST_AT_ONCE),
}


def key_of(text: str) -> int:
    """A fairness key as places carry it: a number from 1 to 2**62 - 1. Of a million keys two are
    the same with a chance of one in five million; they would share their turns."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) >> 2 or 1


def key_in(fairness: Fairness | None, text: str | None) -> int:
    """The key of a job in a queue with this setting."""
    return NO_KEY if fairness is None or text is None else key_of(text)


class Share(msgspec.Struct, frozen=True):
    """What a key gets while others hold jobs."""

    keys: int  # that hold jobs, this one included
    weight: float
    whole: float  # the weights of all of them

    @classmethod
    def among(cls, fairness: Fairness | None, key: int, keys: Iterable[int]) -> "Share":
        weights = {} if fairness is None else fairness.weights_by_key
        held = {key, *keys}
        return cls(len(held), weights.get(key, 1.0), sum(weights.get(one, 1.0) for one in held))


class KeyRounds:
    """The turns of the keys that hold jobs."""

    __slots__ = ("_here", "_most_times", "_now", "_salt", "_times", "_waiting", "weights")

    def __init__(self, weights: Mapping[int, float]) -> None:
        self.weights = weights
        self._now = 0.0  # the time at which the last one was served
        self._times: dict[int, float] = {}
        self._waiting: list[tuple[float, int, int]] = []  # time, a draw for equal times, key
        self._here: set[int] = set()
        self._most_times = KEPT_TIMES
        # Processes that draw alike would all ask the same keys.
        self._salt = random.getrandbits(63)

    def __len__(self) -> int:
        return len(self._here)

    def join(self, key: int) -> None:
        """The key holds jobs. What it waited without any is no credit."""
        if key not in self._here:
            self._here.add(key)
            self._set(key, max(self._now, self._times.get(key, 0.0)))

    def leave(self, key: int) -> None:
        """The key holds no jobs any more. What it has had counts for as long as others are behind
        it."""
        self._here.discard(key)
        if not self._here:
            self._now = max(self._times.values(), default=self._now)
            self._times.clear()
            self._waiting.clear()
        elif len(self._times) > self._most_times:
            self._times = {
                other: time
                for other, time in self._times.items()
                if other in self._here or time > self._now
            }
            self._waiting = [
                entry for entry in self._waiting if self._times.get(entry[2]) == entry[0]
            ]
            heapq.heapify(self._waiting)
            self._most_times = 2 * len(self._times) + KEPT_TIMES

    def _set(self, key: int, time: float) -> None:
        self._times[key] = time
        heapq.heappush(self._waiting, (time, key ^ self._salt, key))

    def first(self) -> int | None:
        """The key whose turn it is."""
        waiting = self._waiting
        while waiting:
            time, _, key = waiting[0]
            if key in self._here and self._times.get(key) == time:
                return key
            heapq.heappop(waiting)
        return None

    def plan(
        self, jobs: int, most_keys: int, stands: Callable[[int], bool | None]
    ) -> dict[int, int]:
        """Who would get how many of the next jobs, if all had enough. `stands`: whether a key may
        be asked; None: it holds no jobs any more."""
        counts: dict[int, int] = {}
        passed: list[tuple[float, int, int]] = []
        mine: list[tuple[float, int, int]] = []  # of those that were chosen, for their next job
        seen: set[int] = set()
        for _ in range(jobs):
            while len(counts) < most_keys and (key := self.first()) is not None:
                if mine and mine[0] < self._waiting[0]:
                    break
                entry = heapq.heappop(self._waiting)
                if key in seen:
                    continue  # its time was set twice to the same
                seen.add(key)
                may = stands(key)
                if may is None:
                    self.leave(key)
                    continue
                passed.append(entry)
                if may:
                    counts[key] = 0
                    heapq.heappush(mine, entry)
                    break
            if not mine:
                break
            time, draw, key = mine[0]
            counts[key] += 1
            heapq.heapreplace(mine, (time + 1 / self.weight(key), draw, key))
        for entry in passed:
            heapq.heappush(self._waiting, entry)
        return counts

    def weight(self, key: int) -> float:
        return self.weights.get(key, 1.0)

    def charge(self, key: int, jobs: int) -> None:
        """The key is asked for so many jobs."""
        time = self._times.get(key)
        if time is not None:
            self._set(key, time + jobs / self.weight(key))

    def settle(self, key: int, asked: int, given: int) -> None:
        """Of what the key was asked for it gave so many."""
        time = self._times.get(key)
        if time is None:
            return
        if given < asked:
            time -= (asked - given) / self.weight(key)
            self._set(key, time)
        if given:
            # when the last of these jobs began to be served
            self._now = max(self._now, time - 1 / self.weight(key))
