"""Takes a few jobs of each of many fairness keys, whose turn it is: four statements for all of
them, where lanes take four each."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from taskforge.domain.job import Claimed
from taskforge.domain.limiter import LeakyBucket
from taskforge.storage.catalog import OpenLane, spot_of
from taskforge.storage.lane_views import BEHIND_ALL, Frontier
from taskforge.storage.occupancy import LARGE_CLAIM, Occupancy
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import Row
from taskforge.storage.sqlite.gates import Gates
from taskforge.storage.sqlite.taken_jobs import Taken, taken_jobs
from taskforge.storage.sqlite.transaction import Transaction

# So many are looked up of every key that is asked.
MOST_OF_A_KEY = 8
Terms = tuple[bytes, int, float, float | None, int | None]
"""Under what jobs run: incarnation, now, timeout and heartbeat timeout in seconds, gate."""


def are_few_of_many(
    lanes: Sequence[OpenLane], frontier: Frontier | None, limit: int, gates: Gates
) -> bool:
    """Whether these are keys of one queue and tier that may all give what they are asked for, with
    nobody to compare their age with."""
    if len(lanes) < 2 or isinstance(lanes[0].settings.bucket, LeakyBucket):
        return False  # a rate that asks whether something waits asks for heads
    first = lanes[0]
    asked = 0
    for lane in lanes:
        if lane.most is None or lane.most > MOST_OF_A_KEY or lane.probing:
            return False
        if lane.queue != first.queue or lane.tier != first.tier:
            return False
        asked += lane.most
    tier, turn = frontier or (first.tier, BEHIND_ALL)
    until = turn if tier == first.tier and limit < LARGE_CLAIM else BEHIND_ALL
    if tier < first.tier or until < BEHIND_ALL:
        return False
    return asked <= limit and gates.room(first, asked) >= asked


def take_few_of_many(
    transaction: Transaction,
    lanes: Sequence[OpenLane],
    worker: str,
    terms: Terms,
    project: int,
    occupancy: Occupancy,
    gates: Gates,
) -> tuple[list[Claimed], Counter[int]]:
    """The jobs in order, and how many of each spot; `terms`: those of their queue."""
    spots = codec.json([(lane.number, lane.key) for lane in lanes])
    most = max(lane.most or 0 for lane in lanes)
    moment = occupancy.moment
    found = transaction.execute(
        sql("few_fences"), (spots, worker, terms[0].hex(), transaction.now, project, most)
    ).fetchall()
    fences = [
        fence
        for lane, (listed,) in zip(lanes, found, strict=True)
        for fence in _split(listed, lane.most)
    ]
    these = (b"".join(fences), codec.positions(len(fences)))
    rows: list[Row] = transaction.execute(sql("take_few"), these).fetchall() if fences else []
    lasts = {spot_of(row[10], row[11]): row[1] for row in rows}
    counts = Counter(spot_of(row[10], row[11]) for row in rows)
    extras: dict[int, list[str | None]] = {}
    if lanes[0].settings.limits_keys:
        for row in rows:
            extras.setdefault(spot_of(row[10], row[11]), []).append(row[8])
    left: dict[int, int | None] = {}
    for lane in lanes:
        spot = lane.spot
        given = counts[spot]
        left[spot] = lasts[spot] if given == lane.most else None
        gates.use(lane, given, extras.get(spot, ()))
    occupancy.leave_in_turns(left, moment)
    if not rows:
        return [], counts
    moved = transaction.execute(sql("take_few_into"), (*these, *terms)).rowcount
    gone = transaction.execute(sql("take_few_from"), these).rowcount
    check_moved(len(fences), moved, gone)
    by_number = {lane.number: lane for lane in lanes}
    taken: list[Taken] = []
    for number, some in groupby(sorted(rows, key=itemgetter(10)), key=itemgetter(10)):
        taken += taken_jobs(by_number[number], [row[:10] for row in some], transaction.now)
    taken.sort(key=itemgetter(0, 1))
    return [job for _, _, job in taken], counts


def _split(listed: str | None, most: int | None) -> list[bytes]:
    """The first so many fences of those that stand one behind the other in hexadecimal."""
    fences = bytes.fromhex(listed or "")[: 16 * (most or 0)]
    return [fences[start : start + 16] for start in range(0, len(fences), 16)]


def check_moved(read: int, moved: int, gone: int) -> None:
    if not read == moved == gone:
        raise AssertionError(
            f"a claim read {read} jobs, put {moved} into running and took {gone} from ready"
        )
