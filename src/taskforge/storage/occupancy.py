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

from collections.abc import Iterable, Mapping, Sequence

from taskforge.storage.catalog import Taker, lane_of
from taskforge.storage.lane_views import BEHIND_ALL, View

# A claim asks all lanes that it may take up to so many, which makes its order exact whatever this
# memory says; beyond them those that are first by what is remembered.
LEAST_ASKED = 32
LARGE_CLAIM = 100
# A survey costs 0.1 ms for 3 lanes and 10 ms for 1,000. One that is dear is made as seldom as takes
# a twentieth of the time. Few lanes may be dear, too, where dead rows stand about; but a busy
# machine alone makes none dear.
SURVEY_SECONDS = 1.0
FEW_LANES = 300
FEW_KEYS = 30  # each costs more to remember than a lane
DEAR_SURVEY_SECONDS = 0.1
SURVEY_SHARE = 20
LANES_IN_ONE_SURVEY = 5_000
MOST_VIEWS = 64
Found = Sequence[tuple[int, int]]  # spots, each with its first turn


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

    def leave_in_turns(self, heads: Mapping[int, int | None], moment: int) -> None:
        """The same for keys that take turns, by spot. Those of one queue stand together, where
        whoever is next stands: their views look that up when they are settled or asked."""
        for spot, head in heads.items():
            if self._told.get(spot, 0) > moment:
                continue
            if head is None:
                self._drop(spot)
            else:
                self.heads[spot] = head

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
        self._is_cheap = (
            len(found) <= FEW_LANES
            and sum(spot != lane_of(spot) for spot, _ in found) <= FEW_KEYS
            and begin == 0
            and took < DEAR_SURVEY_SECONDS
        )
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

    def view(self, taker: Taker) -> View:
        """Of workers that may take the same there is one."""
        kind = (*taker.kind, taker.worker if self._has_servants else None)
        view = self._views.get(kind)
        if view is None:
            if len(self._views) >= MOST_VIEWS:
                del self._views[next(iter(self._views))]
            view = self._views[kind] = View(self.heads, taker)
        return view

    def judge_again(self, queues: Iterable[int] | None) -> None:
        """These queues have changed; None: any may have."""
        changed = None if queues is None else set(queues)
        if changed is None or changed:
            for view in self._views.values():
                view.judge_again(changed)

    def serves_some(self) -> None:
        """Some queue names its workers, or places jobs on them: from now on each worker has a view
        of its own."""
        if not self._has_servants:
            self._has_servants = True
            self._views.clear()
