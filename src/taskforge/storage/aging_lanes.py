"""Lanes that hold jobs and whose place among others depends on how long those have waited.

Lanes of one tier with the same setting form a class. In a class the lane with the oldest first job
has risen farthest and is held back no longer than any other, so the first few of each class, put
in order as of the moment of a claim, are the first few of all: nothing is sorted anew as time goes
on, and no job is touched.
"""

import heapq
from collections.abc import Container, Mapping

import msgspec

from taskforge.domain.fairness import NO_KEY
from taskforge.domain.urgency import MICROSECONDS, Urgency
from taskforge.storage.catalog import OpenLane


class Moment(msgspec.Struct, frozen=True):
    """What the order of lanes is as of."""

    now: int  # microseconds, by the store's clock
    is_loaded: bool = False  # whether more jobs are ready than slots are free

    def held_behind(self, urgency: Urgency | None) -> int | None:
        """Jobs with a later turn than this are held back by pacing; None: none is."""
        if urgency is None:
            return None
        return urgency.held_behind(self.now, is_loaded=self.is_loaded)

    def tier(self, lane: OpenLane, turn: int) -> int:
        """As of which tier the job of this lane goes that became ready then."""
        if lane.urgency is None or lane.key != NO_KEY:
            return lane.tier
        return lane.tier - lane.urgency.steps(self.now - turn)

    def part_from(self, lane: OpenLane, turn: int) -> tuple[int, OpenLane] | None:
        """The jobs of this lane from this turn on that go as of one tier, and that tier; None: they
        are held back."""
        held = self.held_behind(lane.urgency)
        if held is not None and turn > held:
            return None
        tier, until = self.tier(lane, turn), held
        if tier < lane.tier and lane.urgency is not None:
            risen = lane.urgency.risen_until(lane.tier - tier, self.now)
            until = risen if held is None or risen is None else min(risen, held)
        return tier, lane if until is None else msgspec.structs.replace(lane, until=until)


class AgingLanes:
    def __init__(self, heads: Mapping[int, int], open_lanes: Mapping[int, OpenLane]) -> None:
        """`heads`: the first turn of each spot that holds jobs; `open_lanes`: those that may be
        taken."""
        self._heads = heads
        self._open = open_lanes
        self._classes: dict[tuple[int, Urgency], list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._classes.values())) if self._classes else 0

    def clear(self) -> None:
        self._classes.clear()

    def place(self, lane: OpenLane, head: int) -> None:
        assert lane.urgency is not None
        standing = self._classes.setdefault((lane.tier, lane.urgency), [])
        heapq.heappush(standing, (head, lane.number))

    def first(
        self, most: int, without: Container[int], moment: Moment
    ) -> list[tuple[int, int, int]]:
        """Tier, turn and number of the first so many lanes, or of more, last first."""
        found: list[tuple[int, int, int]] = []
        for kind, standing in list(self._classes.items()):
            held = moment.held_behind(kind[1])
            passed = self._pop_first(kind, standing, most, without, held)
            found += [
                (kind[0] - kind[1].steps(moment.now - head), head, number)
                for head, number in passed
                if number not in without
            ]
            for entry in passed:
                heapq.heappush(standing, entry)
            if not standing:
                del self._classes[kind]
        found.sort(reverse=True)
        return found

    def _pop_first(
        self,
        kind: tuple[int, Urgency],
        standing: list[tuple[int, int]],
        most: int,
        without: Container[int],
        held: int | None,
    ) -> list[tuple[int, int]]:
        """Those of one class, none that is held back; what is out of date goes for good."""
        popped: dict[int, tuple[int, int]] = {}
        count = 0
        while standing and count < most:
            head, number = standing[0]
            if not self._is_valid(kind, head, number) or number in popped:
                heapq.heappop(standing)
                continue
            if held is not None and head > held:
                break
            popped[number] = heapq.heappop(standing)
            count += number not in without
        return list(popped.values())

    def _is_valid(self, kind: tuple[int, Urgency], head: int, number: int) -> bool:
        lane = self._open.get(number)
        return (
            lane is not None
            and self._heads.get(number) == head
            and (lane.tier, lane.urgency) == kind
            and lane.settings.fairness is None
            and not lane.settings.is_balanced
        )

    def opens_in(self, moment: Moment) -> float | None:
        """After how many seconds the first job that pacing holds back may be taken."""
        opens = [
            standing[0][0] + kind[1].pace - moment.now
            for kind, standing in self._classes.items()
            if standing and moment.held_behind(kind[1]) is not None
        ]
        return min((one / MICROSECONDS for one in opens if one > 0), default=None)
