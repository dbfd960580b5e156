"""Which lanes of a project hold jobs, as far as one process knows, and which of them a claim asks.

A claim must not ask every lane there is, and where very many hold jobs it must not ask all of
those. So each process remembers the lanes that hold jobs, each with the turn of its first: it is
told by its own inserts and by signals, it corrects itself by surveys of the store (`occupied.sql`),
and it forgets what a claim found empty. All of this is a hint: jobs are taken under the proof
inside the claim, from the head of their lane. What is not known here is late until the next survey,
never lost.

Where a lane holds jobs by their fairness keys, each of these is remembered as a lane is; a *spot*
is either (`spot_of`). Those of one queue and tier take turns (`storage/key_turns.py`).
"""

import heapq
import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from taskforge.storage.catalog import (
    Card,
    Lane,
    OpenLane,
    Taker,
    key_of_spot,
    lane_of,
    may_take,
    open_lane,
)
from taskforge.storage.key_turns import KeyTurns

# A claim asks all lanes that it may take up to so many, which makes its order exact whatever this
# memory says; beyond them those that are first by what is remembered.
LEAST_ASKED = 32
LARGE_CLAIM = 100
# A survey costs 0.1 ms for 3 lanes and 10 ms for 1,000. One that is dear is made as seldom as takes
# a twentieth of the time. Few lanes may be dear, too, where dead rows stand about; but a busy
# machine alone makes none dear.
SURVEY_SECONDS = 1.0
FEW_LANES = 300
DEAR_SURVEY_SECONDS = 0.1
SURVEY_SHARE = 20
LANES_IN_ONE_SURVEY = 5_000
MOST_VIEWS = 64
Found = Sequence[tuple[int, int]]  # spots, each with its first turn
BEHIND_ALL = 2**200  # no spot is, and no turn
Frontier = tuple[int, int]
"""Tier and turn of the best lane that was not asked: what stands behind it waits."""


def most_asked(limit: int) -> int:
    return max(LEAST_ASKED, limit) if limit < LARGE_CLAIM else limit // 8 + LEAST_ASKED


class Occupancy:
    """The lanes of one project that hold jobs."""

    def __init__(self) -> None:
        self.heads: dict[int, int] = {}  # by spot; the first is no earlier than this, or was told
        self._told: dict[int, int] = {}  # when each was told of, by a count of all that was told
        self._count = 0
        self._views: dict[tuple[object, ...], View] = {}
        self._has_servants = False
        self._surveyed_at = -1e9
        self._took = 0.0
        self._is_cheap = True
        self.has_keys = False  # whether there ever was a spot that is not a lane
        self.walked = 0  # the spot behind which the next survey begins

    # --- What is told ---

    def tell(self, lane: int, turn: int) -> None:
        """There is a job at this spot, at this turn or later."""
        self._count += 1
        self._told[lane] = self._count
        head = self.heads.get(lane)
        if head is None or turn < head:
            self._set(lane, turn)

    @property
    def moment(self) -> int:
        """What is told later than this was not seen by a statement that begins now."""
        return self._count

    def leave(self, lane: int, head: int | None, moment: int) -> None:
        """A claim that began at this moment has left this job as the first of the lane, or none."""
        if self._told.get(lane, 0) > moment:
            return
        if head is None:
            self._drop(lane)
        elif self.heads.get(lane) != head:
            self._set(lane, head)

    def survey(
        self, found: Found, moment: int, now: float, took: float, stopped_at: int | None = None
    ) -> None:
        """A survey that began at this moment, behind the spot where the last one ended. It went to
        the end, unless it stopped at this spot or found as much as one may."""
        begin = self.walked
        if stopped_at is None and len(found) >= LANES_IN_ONE_SURVEY:
            stopped_at = found[-1][0]
        end = BEHIND_ALL if stopped_at is None else stopped_at
        self.walked = stopped_at or 0
        self._surveyed_at, self._took = now, took
        self._is_cheap = len(found) <= FEW_LANES and begin == 0 and took < DEAR_SURVEY_SECONDS
        seen = {lane for lane, _ in found}
        for lane in [lane for lane in self.heads if begin < lane <= end and lane not in seen]:
            if self._told.get(lane, 0) <= moment:
                self._drop(lane)
        for lane, head in found:
            if self.heads.get(lane) != head and self._told.get(lane, 0) <= moment:
                self._set(lane, head)

    def survey_soon(self) -> None:
        """Something came to lanes that were not named."""
        self._surveyed_at = -1e9

    def is_due(self, now: float) -> bool:
        """Whether it is time for a survey, though nothing speaks for one."""
        return now >= self._surveyed_at + max(SURVEY_SECONDS, SURVEY_SHARE * self._took)

    @property
    def is_cheap(self) -> bool:
        """Whether the last survey was; before the first one nobody knows better."""
        return self._is_cheap

    def may_survey(self, now: float) -> bool:
        """Whether a claim that found nothing may make one."""
        if self._is_cheap or self.walked > 0:
            return True
        return now >= self._surveyed_at + SURVEY_SHARE * self._took

    def _set(self, lane: int, head: int) -> None:
        self.heads[lane] = head
        self.has_keys |= lane != lane_of(lane)
        for view in self._views.values():
            view.place(lane, head)

    def _drop(self, lane: int) -> None:
        self.heads.pop(lane, None)
        self._told.pop(lane, None)

    # --- Who may take what ---

    def view(self, taker: Taker) -> "View":
        """Of workers that may take the same there is one."""
        kind = (*taker.kind, taker.worker if self._has_servants else None)
        view = self._views.get(kind)
        if view is None:
            if len(self._views) >= MOST_VIEWS:
                del self._views[next(iter(self._views))]
            view = self._views[kind] = View(self, taker)
        return view

    def judge_again(self, queues: Iterable[int]) -> None:
        """These queues have changed."""
        changed = set(queues)
        if changed:
            for view in self._views.values():
                view.judge_again(changed)

    def serves_some(self) -> None:
        """Some queue names its workers: from now on each worker has a view of its own."""
        if not self._has_servants:
            self._has_servants = True
            self._views.clear()


class View:
    """The spots that hold jobs and that workers of one kind may take, best first."""

    def __init__(self, occupancy: Occupancy, taker: Taker) -> None:
        self._occupancy = occupancy
        self._taker = taker
        self.unjudged = set(map(lane_of, occupancy.heads))  # lanes
        self._queues: dict[int, int] = {}  # of the lanes that were judged
        self._open: dict[int, OpenLane] = {}
        # tier, turn, and the spot, of which no two hold; or a number below 0: keys that take turns
        self._heap: list[tuple[int, int, int]] = []
        self._numbers = itertools.count(-1, -1)
        self._turns: dict[int, KeyTurns] = {}
        self._turns_of: dict[tuple[int, int], KeyTurns] = {}  # by queue and tier

    def place(self, spot: int, head: int) -> None:
        lane = lane_of(spot)
        open_lane = self._open.get(lane)
        if open_lane is not None:
            self._push(open_lane, spot, head)
            self._bound()
        elif lane not in self._queues:
            self.unjudged.add(lane)

    def _push(self, lane: OpenLane, spot: int, head: int) -> None:
        if spot != lane.number or lane.settings.fairness is not None:
            turns = self._turns_of.get((lane.queue, lane.tier)) or self._begin_turns(lane)
            turns.place(lane.number, key_of_spot(spot))
            self._push_turns(turns)
        else:
            heapq.heappush(self._heap, (lane.tier, head, spot))

    def _begin_turns(self, lane: OpenLane) -> KeyTurns:
        turns = KeyTurns(next(self._numbers), lane, self._occupancy.heads, self._open)
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
        if len(self._heap) > 2 * len(self._occupancy.heads) + 1_000:
            self._sort()

    def _sort(self) -> None:
        self._heap = []
        for turns in self._turns.values():
            turns.shown = None
        for spot, head in self._occupancy.heads.items():
            lane = self._open.get(lane_of(spot))
            if lane is not None:
                self._push(lane, spot, head)

    def judge(self, numbers: Iterable[int], lanes: dict[int, Lane], cards: dict[int, Card]) -> None:
        """These were not judged yet. A lane of which nothing is known is left alone."""
        heads = self._occupancy.heads
        judged = set()
        for number in numbers:
            self.unjudged.discard(number)
            lane = lanes.get(number)
            card = None if lane is None else cards.get(lane.queue)
            if lane is None or card is None:
                continue
            self._queues[number] = lane.queue
            if may_take(self._taker, card, lane):
                found = self._open[number] = open_lane(card.queue, lane)
                judged.add(number)
                turns = self._turns_of.get((found.queue, found.tier))
                if turns is not None:
                    turns.weigh(found)
                if number in heads:
                    self._push(found, number, heads[number])
        if self._occupancy.has_keys:
            for spot, head in heads.items():
                lane_number = lane_of(spot)
                if spot != lane_number and lane_number in judged:
                    self._push(self._open[lane_number], spot, head)
        if len(self._queues) > 2 * len(heads) + 1_000:
            self._forget_the_empty()

    def _forget_the_empty(self) -> None:
        held = set(map(lane_of, self._occupancy.heads))
        self._queues = {lane: queue for lane, queue in self._queues.items() if lane in held}
        for number in [number for number in self._open if number not in held]:
            del self._open[number]
        for kind, turns in list(self._turns_of.items()):
            if turns.head() is None:
                del self._turns_of[kind], self._turns[turns.number]

    def judge_again(self, queues: set[int]) -> None:
        judged = [lane for lane, queue in self._queues.items() if queue in queues]
        if not judged:
            return
        held = set(map(lane_of, self._occupancy.heads))
        for number in judged:
            del self._queues[number]
            self._open.pop(number, None)
            if number in held:
                self.unjudged.add(number)

    def best(
        self, most: int, without: Container[int] = (), limit: int = 1
    ) -> tuple[list[OpenLane], Frontier | None]:
        """The first spots by tier and turn, for so many jobs, and where the others begin if there
        are more. Left out are those that gave nothing just now."""
        heads, heap, open_lanes = self._occupancy.heads, self._heap, self._open
        chosen: dict[int, OpenLane] = {}
        planned: set[int] = set()
        passed: list[tuple[int, int, int]] = []
        frontier: Frontier | None = None
        rest: Frontier | None = None  # behind the keys whose turn comes later
        while heap:
            tier, head, spot = heap[0]
            if rest is not None and tier > rest[0]:
                break
            turns = self._turns.get(spot) if spot < 0 else None
            if turns is not None:
                heapq.heappop(heap)
                if turns.shown != head or spot in planned:
                    continue
                if turns.head() != head:
                    self._push_turns(turns)
                    continue
                planned.add(spot)
                passed.append((tier, head, spot))
                if len(chosen) >= most:
                    frontier = (tier, head)
                    break
                given = turns.plan(limit, most - len(chosen), without)
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
        for lane in lanes:
            if lane.most is not None:
                turns = self._turns_of.get((lane.queue, lane.tier))
                if turns is not None:
                    yield lane, turns
