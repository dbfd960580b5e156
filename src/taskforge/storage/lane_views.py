"""The lanes that hold jobs as workers of one kind see them, best first: which of them a claim
asks."""

import heapq
import itertools
from collections.abc import Container, Iterable, Iterator, Mapping

from taskforge.domain.dispatch import key_of_worker
from taskforge.storage.aging_lanes import AgingLanes, Moment
from taskforge.storage.catalog import (
    Card,
    Lane,
    OpenLane,
    Taker,
    judge_lanes,
    key_of_spot,
    lane_of,
)
from taskforge.storage.circuits import ProjectCircuits
from taskforge.storage.key_turns import KeyTurns

BEHIND_ALL = 2**200  # no spot is, and no turn
Frontier = tuple[int, int]
"""Tier and turn of the best lane that was not asked: what stands behind it waits."""


class View:
    """The spots that hold jobs and that workers of one kind may take, best first."""

    def __init__(self, heads: Mapping[int, int], taker: Taker) -> None:
        """`heads`: the first turn of each spot that holds jobs, as it changes."""
        self._heads = heads
        self._has_keys = any(spot != lane_of(spot) for spot in heads)  # or ever had
        self._taker = taker
        self._own_key = key_of_worker(taker.worker)
        self.unjudged = set(map(lane_of, heads))  # lanes
        self._queues: dict[int, int] = {}  # of the lanes that were judged
        self._open: dict[int, OpenLane] = {}
        # tier, turn, and the spot, of which no two hold; or a number below 0: keys that take turns
        self._heap: list[tuple[int, int, int]] = []
        self._aging = AgingLanes(heads, self._open)
        self.is_paced = False  # whether any lane is, or was
        self._numbers = itertools.count(-1, -1)
        self._turns: dict[int, KeyTurns] = {}
        self._turns_of: dict[tuple[int, int], KeyTurns] = {}  # by queue and tier

    def place(self, spot: int, head: int) -> None:
        lane = lane_of(spot)
        self._has_keys |= lane != spot
        open_lane = self._open.get(lane)
        if open_lane is not None:
            self._push(open_lane, spot, head)
            self._bound()
        elif lane not in self._queues:
            self.unjudged.add(lane)

    def _push(self, lane: OpenLane, spot: int, head: int) -> None:
        if lane.settings.is_balanced and key_of_spot(spot) != self._own_key:
            return  # it is placed on another worker, or not yet
        if spot != lane.number or lane.settings.fairness is not None:
            turns = self._turns_of.get((lane.queue, lane.tier)) or self._begin_turns(lane)
            turns.place(lane.number, key_of_spot(spot))
            self._push_turns(turns)
        elif lane.urgency is not None:
            self._aging.place(lane, head)
        else:
            heapq.heappush(self._heap, (lane.tier, head, spot))

    def _begin_turns(self, lane: OpenLane) -> KeyTurns:
        turns = KeyTurns(next(self._numbers), lane, self._heads, self._open)
        self._turns[turns.number] = self._turns_of[lane.queue, lane.tier] = turns
        return turns

    def _push_turns(self, turns: KeyTurns) -> None:
        """Those stand where the job stands that goes next."""
        head = turns.head()
        if head != turns.shown:
            turns.shown = head
            if head is not None:
                heapq.heappush(self._heap, (turns.tier, head, turns.number))
                self._bound()

    def _bound(self) -> None:
        if len(self._heap) + len(self._aging) > 2 * len(self._heads) + 1_000:
            self._sort()

    def _sort(self) -> None:
        self._heap = []
        self._aging.clear()
        for turns in self._turns.values():
            turns.shown = None
        for spot, head in self._heads.items():
            lane = self._open.get(lane_of(spot))
            if lane is not None:
                self._push(lane, spot, head)

    def judge(
        self,
        numbers: list[int],
        lanes: dict[int, Lane],
        cards: dict[int, Card],
        circuits: ProjectCircuits,
    ) -> None:
        """These were not judged yet. A lane of which nothing is known is left alone."""
        heads = self._heads
        judged = set()
        self.unjudged.difference_update(numbers)
        for lane, found in judge_lanes(self._taker, numbers, lanes, cards, circuits):
            number = lane.number
            self._queues[number] = lane.queue
            if found is not None:
                self._open[number] = found
                judged.add(number)
                self._weigh(found)
                self.is_paced |= found.urgency is not None and found.urgency.pace > 0
                if number in heads:
                    self._push(found, number, heads[number])
        if self._has_keys:
            for spot, head in heads.items():
                lane_number = lane_of(spot)
                if spot != lane_number and lane_number in judged:
                    self._push(self._open[lane_number], spot, head)
        if len(self._queues) > 2 * len(heads) + 1_000:
            self._forget_the_empty()

    def _weigh(self, lane: OpenLane) -> None:
        """The queue's setting, as it is now. Keys that took turns are forgotten once jobs are
        placed, and the other way round."""
        turns = self._turns_of.get((lane.queue, lane.tier))
        if turns is None:
            return
        if turns.is_balanced == lane.settings.is_balanced:
            turns.weigh(lane)
        else:
            del self._turns_of[lane.queue, lane.tier], self._turns[turns.number]

    def _forget_the_empty(self) -> None:
        held = set(map(lane_of, self._heads))
        self._queues = {lane: queue for lane, queue in self._queues.items() if lane in held}
        for number in [number for number in self._open if number not in held]:
            del self._open[number]
        for kind, turns in list(self._turns_of.items()):
            if turns.head() is None:
                del self._turns_of[kind], self._turns[turns.number]

    def judge_again(self, queues: set[int] | None) -> None:
        """Lanes of these queues, or all."""
        judged = [lane for lane, queue in self._queues.items() if queues is None or queue in queues]
        if not judged:
            return
        held = set(map(lane_of, self._heads))
        for number in judged:
            del self._queues[number]
            self._open.pop(number, None)
            if number in held:
                self.unjudged.add(number)

    @property
    def is_aging(self) -> bool:
        """Whether the order of lanes depends on the moment."""
        return self.is_paced or len(self._aging) > 0

    def opens_in(self, moment: Moment) -> float | None:
        """After how many seconds a job that pacing holds back may be taken, as far as is known."""
        return self._aging.opens_in(moment)

    def best(
        self,
        most: int,
        without: Container[int] = (),
        limit: int = 1,
        moment: Moment | None = None,
    ) -> tuple[list[OpenLane], Frontier | None]:
        """The first spots by tier and turn, for so many jobs, and where the others begin if there
        are more. Left out are those that gave nothing just now, and what pacing holds back.
        `moment` is asked for where the view `is_aging`."""
        heads, heap, open_lanes = self._heads, self._heap, self._open
        chosen: dict[int, OpenLane] = {}
        planned: set[int] = set()
        passed: list[tuple[int, int, int]] = []
        frontier: Frontier | None = None
        rest: Frontier | None = None  # behind the keys whose turn comes later
        aging = [] if moment is None else self._aging.first(most + 1, without, moment)
        while heap or aging:
            if aging and (not heap or aging[-1] < heap[0]):
                tier, head, spot = aging[-1]
                if rest is not None and tier > rest[0]:
                    break
                if len(chosen) >= most:
                    frontier = (tier, head)
                    break
                chosen[spot] = open_lanes[spot]
                aging.pop()
                continue
            tier, head, spot = heap[0]
            if rest is not None and tier > rest[0]:
                break
            turns = self._turns.get(spot) if spot < 0 else None
            if turns is not None:
                heapq.heappop(heap)
                if spot in planned or not self._stand_at(turns, head):
                    continue
                planned.add(spot)
                passed.append((tier, head, spot))
                if len(chosen) >= most:
                    frontier = (tier, head)
                    break
                given = turns.plan(limit, most - len(chosen), without, moment)
                chosen.update((lane.spot, lane) for lane in given)
                if given and turns.goes_before_the_next():
                    rest = (tier, BEHIND_ALL)
                continue
            lane = open_lanes.get(lane_of(spot))
            if (
                lane is None
                or lane.tier != tier
                or heads.get(spot) != head
                or spot in chosen
                or lane.settings.fairness is not None
                or lane.settings.is_balanced
                or lane.urgency is not None
            ):
                heapq.heappop(heap)
                continue
            if spot in without:
                passed.append(heapq.heappop(heap))
                continue
            if len(chosen) >= most:
                frontier = (tier, head)
                break
            chosen[spot] = lane
            passed.append(heapq.heappop(heap))
        for entry in passed:
            heapq.heappush(heap, entry)
        return list(chosen.values()), frontier or rest

    # --- Keys that take turns ---

    def _stand_at(self, turns: KeyTurns, head: int) -> bool:
        if turns.shown != head:
            return False
        if turns.head() != head:
            self._push_turns(turns)
            return False
        return True

    def charge(self, lanes: Iterable[OpenLane]) -> None:
        """These are asked for what it is their turn to give."""
        for lane, turns in self._in_turns(lanes):
            turns.rounds.charge(lane.key, lane.most or 0)

    def settle(self, lanes: Iterable[OpenLane], taken: Mapping[int, int]) -> None:
        """So many were taken, by spot, of what was asked."""
        settled = {}
        for lane, turns in self._in_turns(lanes):
            turns.rounds.settle(lane.key, lane.most or 0, taken.get(lane.spot, 0))
            settled[turns.number] = turns
        for turns in settled.values():
            self._push_turns(turns)

    def _in_turns(self, lanes: Iterable[OpenLane]) -> Iterator[tuple[OpenLane, KeyTurns]]:
        kind, turns = None, None
        for lane in lanes:
            if lane.most is not None:
                if kind != (lane.queue, lane.tier):
                    kind = (lane.queue, lane.tier)
                    turns = self._turns_of.get(kind)
                if turns is not None:
                    yield lane, turns
