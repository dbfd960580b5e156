"""Which lanes of a project hold jobs, as far as one process knows, and which of them a claim asks.

A claim must not ask every lane there is, and where very many hold jobs it must not ask all of
those. So each process remembers the lanes that hold jobs, each with the turn of its first: it is
told by its own inserts and by signals, it corrects itself by surveys of the store (`occupied.sql`),
and it forgets what a claim found empty. All of this is a hint: jobs are taken under the proof
inside the claim, from the head of their lane. What is not known here is late until the next survey,
never lost.
"""

import heapq
from collections.abc import Container, Iterable, Sequence

from taskforge.storage.catalog import Card, Lane, OpenLane, Taker, may_take, open_lane

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
Frontier = tuple[int, int]
"""Tier and turn of the best lane that was not asked: what stands behind it waits."""


def most_asked(limit: int) -> int:
    return max(LEAST_ASKED, limit) if limit < LARGE_CLAIM else limit // 8 + LEAST_ASKED


class Occupancy:
    """The lanes of one project that hold jobs."""

    def __init__(self) -> None:
        self.heads: dict[int, int] = {}  # by lane; the first is no earlier than this, or was told
        self._told: dict[int, int] = {}  # when each was told of, by a count of all that was told
        self._count = 0
        self._views: dict[tuple[object, ...], View] = {}
        self._has_servants = False
        self._surveyed_at = -1e9
        self._took = 0.0
        self._is_cheap = True
        self.walked = 0  # the lane behind which the next survey begins

    # --- What is told ---

    def tell(self, lane: int, turn: int) -> None:
        """There is a job in this lane, at this turn or later."""
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
        self, found: Sequence[tuple[int, int]], moment: int, now: float, took: float
    ) -> None:
        """A survey that began at this moment, behind the lane where the last one ended."""
        begin = self.walked
        is_last = len(found) < LANES_IN_ONE_SURVEY
        end = 2**63 if is_last else found[-1][0]
        self.walked = 0 if is_last else end
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
    """The lanes that hold jobs and that workers of one kind may take, best first."""

    def __init__(self, occupancy: Occupancy, taker: Taker) -> None:
        self._occupancy = occupancy
        self._taker = taker
        self.unjudged = set(occupancy.heads)
        self._queues: dict[int, int] = {}  # of the lanes that were judged
        self._open: dict[int, OpenLane] = {}
        self._heap: list[tuple[int, int, int]] = []  # tier, turn, lane; of no lane two that hold

    def place(self, lane: int, head: int) -> None:
        open_lane = self._open.get(lane)
        if open_lane is not None:
            heapq.heappush(self._heap, (open_lane.tier, head, lane))
            if len(self._heap) > 2 * len(self._occupancy.heads) + 1_000:
                self._sort()
        elif lane not in self._queues:
            self.unjudged.add(lane)

    def _sort(self) -> None:
        heads = self._occupancy.heads
        self._heap = [
            (lane.tier, heads[number], number)
            for number, lane in self._open.items()
            if number in heads
        ]
        heapq.heapify(self._heap)

    def judge(self, numbers: Iterable[int], lanes: dict[int, Lane], cards: dict[int, Card]) -> None:
        """These were not judged yet. A lane of which nothing is known is left alone."""
        heads = self._occupancy.heads
        for number in numbers:
            self.unjudged.discard(number)
            lane = lanes.get(number)
            card = None if lane is None else cards.get(lane.queue)
            if lane is None or card is None:
                continue
            self._queues[number] = lane.queue
            if may_take(self._taker, card, lane):
                found = self._open[number] = open_lane(card.queue, lane)
                if number in heads:
                    heapq.heappush(self._heap, (found.tier, heads[number], number))
        if len(self._queues) > 2 * len(heads) + 1_000:
            self._forget_the_empty()

    def _forget_the_empty(self) -> None:
        heads = self._occupancy.heads
        self._queues = {lane: queue for lane, queue in self._queues.items() if lane in heads}
        self._open = {number: lane for number, lane in self._open.items() if number in heads}

    def judge_again(self, queues: set[int]) -> None:
        for number in [lane for lane, queue in self._queues.items() if queue in queues]:
            del self._queues[number]
            self._open.pop(number, None)
            if number in self._occupancy.heads:
                self.unjudged.add(number)

    def best(
        self, most: int, without: Container[int] = ()
    ) -> tuple[list[OpenLane], Frontier | None]:
        """The first lanes by tier and turn, and where the others begin if there are more. Left out
        are those that gave nothing just now."""
        heads, heap, open_lanes = self._occupancy.heads, self._heap, self._open
        chosen: dict[int, tuple[int, int, int]] = {}
        passed: list[tuple[int, int, int]] = []
        frontier = None
        while heap:
            tier, head, number = heap[0]
            lane = open_lanes.get(number)
            if lane is None or lane.tier != tier or heads.get(number) != head or number in chosen:
                heapq.heappop(heap)
                continue
            if number in without:
                passed.append(heapq.heappop(heap))
                continue
            if len(chosen) == most:
                frontier = (tier, head)
                break
            chosen[number] = heapq.heappop(heap)
        for entry in (*chosen.values(), *passed):
            heapq.heappush(heap, entry)
        return [open_lanes[number] for number in chosen], frontier
