"""Says why a job is not running, from one snapshot of the file."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain.errors import NotFound
from taskforge.domain.explain import explain as explained
from taskforge.domain.explanation import MOST_AHEAD, Explanation, Judged, PlaceInLine, Rate
from taskforge.domain.fairness import NO_KEY, Share
from taskforge.domain.ids import last_fence_of
from taskforge.domain.limiter import BucketState
from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import Lane
from taskforge.storage.circuits import NO_CIRCUITS
from taskforge.storage.explaining import (
    MOST_LANES,
    Ahead,
    Stand,
    are_paced,
    lanes_before,
    verdicts,
)
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import SECOND
from taskforge.storage.sqlite.gates import count_running, state_of
from taskforge.storage.sqlite.loads import is_loaded
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
        or [None] * 7
    )
    skipped, misfit_at, key, misfit = unwilling
    circuits = catalog.circuits or NO_CIRCUITS
    standing = PlaceInLine(
        skipped=_uuids(skipped),
        misfit_at=codec.maybe_moment(misfit_at),
        misfit=misfit,
        circuits=circuits.held(card.queue, one.job_type),
    )
    if turn is not None and lane is not None:
        standing = _standing(snapshot, lane, given, (turn, fence, until, key), standing)
    return explained(one, card.queue, given, standing, codec.moment(snapshot.now))


def _uuids(listed: str | None) -> frozenset[UUID]:
    return frozenset(map(UUID, codec.texts(listed) or ()))


def _standing(
    snapshot: ReadSnapshot,
    lane: Lane,
    given: Sequence[Judged],
    place: tuple[int, bytes, int | None, int],
    known: PlaceInLine,
) -> PlaceInLine:
    turn, fence, until, key = place
    cache, now = snapshot.catalog_cache, snapshot.now
    catalog = cache.of(lane.project)
    settings = cache.card(catalog, lane.queue).queue.settings
    look = snapshot.execute(sql("occupied"), (lane.project, 0, MOST_LANES, 0)).fetchall()
    occupied = [cache.lane(number) for number in {number for number, *_ in look}]
    queues = {lane.queue} | {other.queue for other in occupied}
    cards = {queue: cache.card(catalog, queue) for queue in queues}
    circuits = catalog.circuits or NO_CIRCUITS
    numbers = dict.fromkeys(number for number, *_ in look)
    loaded = are_paced(cards.values()) and is_loaded(snapshot, lane.project, numbers)
    stand = Stand(lane, turn, settings.urgency(lane.priority), Moment(now, loaded))
    before = lanes_before(stand, occupied, cards, given, known.skipped, circuits)

    def count(lanes: Ahead, of_key: int | None = None) -> int:
        lists = codec.json(lanes.better), codec.json(lanes.beside)
        arguments = (*lists, turn, fence, now, MOST_AHEAD, lane.project)
        if of_key is not None:
            arguments = (*arguments, of_key)  # type: ignore[assignment]
        name = "ahead" if of_key is None else "ahead_of_key"
        counted = int(snapshot.execute(sql(name), arguments).fetchone()[0])
        if lanes.part:
            parts = (codec.json(lanes.part), now, MOST_AHEAD, lane.project)
            counted += int(snapshot.execute(sql("ahead_in_part"), parts).fetchone()[0])
        return counted

    share, beside = None, set(before.here.beside)
    by_key = settings.fairness is not None or key != NO_KEY or settings.is_balanced
    if by_key and not settings.is_balanced:
        keys = {NO_KEY for number, turn, _ in look if turn is not None and number in beside}
        for number in beside:
            held = snapshot.execute(sql("occupied_keys"), (lane.project, number, 0, MOST_LANES))
            keys.update(one for one, _ in held)
        share = Share.among(settings.fairness, key, keys)
    of_key, key_rate = (0, 0), None
    if settings.limits_keys:
        counts = snapshot.execute(sql("count_keys"), (lane.queue,)).fetchall()
        of_key = next(((running, waits) for one, running, waits in counts if one == key), of_key)
    ahead = count(before.here, key if by_key else None)
    if settings.fairness is not None and settings.fairness.bucket is not None and key != NO_KEY:
        states = snapshot.execute(sql("key_gates"), (lane.queue, codec.json([key]))).fetchall()
        state = BucketState(*states[0][1:]) if states else None
        key_rate = Rate.seen(settings.fairness.bucket, state, now / SECOND, ahead)
    rate = None
    if settings.bucket is not None:
        rate = Rate.seen(
            settings.bucket, state_of(snapshot.execute, lane.queue), now / SECOND, ahead
        )
    return msgspec.structs.replace(
        known,
        ready_seconds=max(0.0, (now - turn) / SECOND),
        ahead=ahead,
        elsewhere=count(before.elsewhere),
        running=count_running(snapshot.execute, lane.queue) if settings.is_gated else 0,
        rate=rate,
        until=codec.maybe_moment(until),
        share=share,
        key_running=of_key[0],
        key_waiting=of_key[1],
        key_rate=key_rate,
        placed=key if settings.is_balanced else None,
        steps=stand.steps,
        opens_at=codec.maybe_moment(stand.opens_at),
    )
