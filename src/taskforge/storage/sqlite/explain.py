"""Says why a job is not running, from one snapshot of the file."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain.errors import NotFound
from taskforge.domain.explain import explain as explained
from taskforge.domain.explanation import MOST_AHEAD, Explanation, Judged, PlaceInLine, Rate
from taskforge.domain.ids import last_fence_of
from taskforge.storage.catalog import Lane
from taskforge.storage.explaining import MOST_LANES, lanes_before, verdicts
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import SECOND
from taskforge.storage.sqlite.gates import count_running, state_of
from taskforge.storage.sqlite.reads import get
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.workers import list_workers


def explain(snapshot: ReadSnapshot, projects: Sequence[int], job: UUID) -> Explanation:
    found = get(snapshot, projects, [job])
    if not found:
        raise NotFound("job", str(job))
    one, cache = found[0], snapshot.catalog_cache
    catalog = cache.of(one.project)
    card = cache.card_of(catalog, one.queue_id)
    lane = cache.find_lane((card.queue.number, one.job_type, one.priority, one.requires))
    given = verdicts(
        card,
        lane,
        list_workers(snapshot.connection, [one.project], snapshot.now, snapshot.steady),
    )
    turn, fence, until, *unwilling = (
        snapshot.execute(sql("stands"), (job.bytes, last_fence_of(job).bytes)).fetchone()
        or [None] * 6
    )
    skipped, misfit_at, misfit = unwilling
    standing = PlaceInLine(
        skipped=_uuids(skipped), misfit_at=codec.maybe_moment(misfit_at), misfit=misfit
    )
    if turn is not None and lane is not None:
        standing = _standing(snapshot, lane, given, turn, fence, until, standing)
    return explained(one, card.queue, given, standing, codec.moment(snapshot.now))


def _uuids(listed: str | None) -> frozenset[UUID]:
    return frozenset(map(UUID, codec.texts(listed) or ()))


def _standing(
    snapshot: ReadSnapshot,
    lane: Lane,
    given: Sequence[Judged],
    turn: int,
    fence: bytes,
    until: int | None,
    known: PlaceInLine,
) -> PlaceInLine:
    cache, now = snapshot.catalog_cache, snapshot.now
    catalog = cache.of(lane.project)
    settings = cache.card(catalog, lane.queue).queue.settings
    look = snapshot.execute(sql("occupied"), (lane.project, 0, MOST_LANES)).fetchall()
    occupied = [cache.lane(number) for number, _ in look]
    queues = {lane.queue} | {other.queue for other in occupied}
    cards = {queue: cache.card(catalog, queue) for queue in queues}
    before = lanes_before(lane, occupied, cards, given, known.skipped)

    def count(better: list[int], beside: list[int]) -> int:
        lists = codec.json(better), codec.json(beside)
        arguments = (*lists, turn, fence, now, MOST_AHEAD, lane.project)
        return int(snapshot.execute(sql("ahead"), arguments).fetchone()[0])

    ahead = count(before.better, before.beside)
    rate = None
    if settings.bucket is not None:
        rate = Rate.seen(
            settings.bucket, state_of(snapshot.execute, lane.queue), now / SECOND, ahead
        )
    return msgspec.structs.replace(
        known,
        ready_seconds=max(0.0, (now - turn) / SECOND),
        ahead=ahead,
        elsewhere=count(before.better_elsewhere, before.beside_elsewhere),
        running=count_running(snapshot.execute, lane.queue) if settings.is_gated else 0,
        rate=rate,
        until=codec.maybe_moment(until),
    )
