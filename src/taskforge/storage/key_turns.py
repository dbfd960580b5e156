"""The keys of one queue and tier, as far as one process knows, and which of them a claim asks."""

from collections.abc import Container, Mapping

from taskforge.domain.fairness import NO_KEY, KeyRounds
from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import OpenLane, spot_of


class KeyTurns:
    """Which keys hold jobs, and in which lanes. Of one key the older job goes first, whatever its
    lane."""

    __slots__ = (
        "_heads",
        "_is_limited",
        "_lanes",
        "_open",
        "is_balanced",
        "number",
        "rounds",
        "shown",
        "tier",
        "urgency",
    )

    def __init__(
        self,
        number: int,
        lane: OpenLane,
        heads: Mapping[int, int],
        open_lanes: Mapping[int, OpenLane],
    ) -> None:
        """`heads`: the first turn of each spot that holds jobs; `open_lanes`: those that may be
        taken."""
        self.number = number
        self.tier = lane.tier
        self.is_balanced = lane.settings.is_balanced
        self.shown: int | None = None  # the turn under which these stand among lanes
        self.rounds = KeyRounds({})
        self._heads = heads
        self._open = open_lanes
        self._lanes: dict[int, set[int]] = {}  # by key
        self._is_limited = False
        self.weigh(lane)

    def weigh(self, lane: OpenLane) -> None:
        """The queue's setting, as it is now."""
        fairness = lane.settings.fairness
        self.rounds.weights = {} if fairness is None else fairness.weights_by_key
        self._is_limited = lane.settings.limits_keys
        self.urgency = lane.urgency
        if fairness is None:
            self._leave(NO_KEY)  # those without a key stand as in any queue

    def place(self, lane: int, key: int) -> None:
        self._lanes.setdefault(key, set()).add(lane)
        self.rounds.join(key)

    def head(self) -> int | None:
        """The turn of the job that goes next."""
        while (key := self.rounds.first()) is not None:
            stand = self._first(key, ())
            if stand is not None:
                return stand[0]
            self._leave(key)
        return None

    def _first(self, key: int, without: Container[int]) -> tuple[int, int] | None:
        """The first turn of a key and the lane it is in."""
        lanes = self._lanes.get(key, ())
        if len(lanes) == 1:
            (only,) = lanes
            spot = spot_of(only, key)
            head = self._heads.get(spot)
            is_there = head is not None and only in self._open and spot not in without
            return (head, only) if head is not None and is_there else None
        return min(
            (
                (self._heads[spot], lane)
                for lane in lanes
                if (spot := spot_of(lane, key)) in self._heads
                and lane in self._open
                and spot not in without
            ),
            default=None,
        )

    def _leave(self, key: int) -> None:
        self._lanes.pop(key, None)
        self.rounds.leave(key)

    def plan(
        self, jobs: int, most_keys: int, without: Container[int], moment: Moment | None = None
    ) -> list[OpenLane]:
        """Whom to ask for the next so many jobs, each for as many as it is its turn to give. A key
        whose first job is held back at the moment is passed over."""
        until = None if moment is None else moment.held_behind(self.urgency)
        lanes: dict[int, OpenLane] = {}  # of the keys that may be asked

        def stands(key: int) -> bool | None:
            first = self._first(key, without)
            if first is not None:
                lanes[key] = self._open[first[1]]
                return until is None or first[0] <= until
            if self._first(key, ()) is not None:
                return False
            self._lanes.pop(key, None)
            return None

        counts = self.rounds.plan(jobs, most_keys, stands)
        return [lanes[key].of_key(key, count) for key, count in counts.items() if count]

    def goes_before_the_next(self) -> bool:
        """Whether the tiers behind this one must wait until it is asked: more may stand here than
        the first of one key, or what a key starts here counts against its limit there."""
        return (
            self._is_limited
            or len(self.rounds) > 1
            or any(len(lanes) > 1 for lanes in self._lanes.values())
        )
