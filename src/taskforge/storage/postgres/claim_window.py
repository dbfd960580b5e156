"""How far one worker's claims look into each lane: how many rows, and from where.

How many: a claim merges many lanes but takes only so many jobs, so each lane is asked for a quarter
more than it lately gave, or half as much again if it gave all that it was asked for, more if the
whole claim fell short; the statement takes what comes first. Every row that is looked at is locked,
which is a write of its own.

From where: an idle transaction anywhere keeps dead rows alive, and a claim from the head of a lane
then walks all of them (measured: 18k to 3k jobs/s within three minutes). When claims stay slow they
seek past what was already taken, and look from the head only as often as costs a twentieth of the
time. For the same reason what a worker runs is counted from its oldest job on.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter

SLOW_SECONDS = 0.010
SLOW_SECONDS_PER_JOB = 0.000_030
MOST_SECONDS_BETWEEN_RESCANS = 10.0
# one slow claim is a cold plan or a busy machine; dead rows are in the way of every claim
SLOW_IN_A_ROW = 3
LEAST_ROWS = 8
UNDER_WAY = timedelta(seconds=5)
_LANE = itemgetter(0)


class ClaimWindow:
    def __init__(self) -> None:
        self._bounds: dict[int, int] = {}
        self._wanted: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        self._limit = 0
        self._rescan_at = 0.0
        # by lane the turn of the first job that the last claim left there, if it was asked for that
        self.left: dict[int, int | None] | None = None
        self.cut_short = False  # whether the last claim may have left jobs that it was to take
        self._from_head = True
        self._slow = 0
        self.busy_since: datetime | None = None  # the worker runs nothing that it claimed before

    def is_busy_since(self, moment: datetime) -> None:
        """What it runs was claimed then or later, as a claim has just seen. Another one under way
        may have begun before."""
        self.busy_since = moment - UNDER_WAY

    def from_head(self) -> None:
        """Something was put back at an old turn: the next claim looks from the head."""
        self._rescan_at = 0.0

    def ask(self, lanes: Sequence[int], limit: int, now: float) -> tuple[list[int], list[int]]:
        """For each lane: the turn to seek past, and how many rows to look at."""
        self._from_head = now >= self._rescan_at
        self._limit = limit
        bounds = [0 if self._from_head else self._bounds.get(lane, 0) for lane in lanes]
        if len(lanes) == 1:
            self._asked = {}
            return bounds, [limit]
        fair = max(LEAST_ROWS, _and_a_quarter(limit // len(lanes)))
        asked = [min(limit, max(fair, self._wanted.get(lane, 0))) for lane in lanes]
        self._asked = dict(zip(lanes, asked, strict=True))
        return bounds, asked

    def learn(self, taken: Sequence[tuple[int, int]], now: float, took: float) -> None:
        """`taken` holds the lane and turn of each job that was claimed, by turn."""
        counts = Counter(map(_LANE, taken))
        drawn = {
            lane for lane, count in counts.items() if count >= self._asked.get(lane, count + 1)
        }
        self.cut_short = bool(drawn)
        # What a lane was asked for before is forgotten by halves, because this claim may have been
        # the small rest of another.
        wanted = {
            lane: before // 2 for lane, before in self._wanted.items() if before > 2 * LEAST_ROWS
        }
        for lane, count in counts.items():
            more = 0 if lane not in drawn else count if len(taken) < self._limit else count // 5
            wanted[lane] = max(_and_a_quarter(count + more), wanted.get(lane, 0))
        self._wanted = wanted
        # Of one lane the last turn stays.
        self._bounds.update(taken)
        if self._from_head:
            slow = took > SLOW_SECONDS + SLOW_SECONDS_PER_JOB * len(taken)
            self._slow = self._slow + 1 if slow else 0
            if self._slow >= SLOW_IN_A_ROW:
                self._rescan_at = now + min(MOST_SECONDS_BETWEEN_RESCANS, 20 * took)


def _and_a_quarter(rows: int) -> int:
    return rows + rows // 4 + 2
