"""Whether a project is loaded, as a claim or `explain` sees it in its own transaction."""

from collections.abc import Iterable

from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import Taker, lane_of
from taskforge.storage.circuits import NO_CIRCUITS
from taskforge.storage.lane_views import View
from taskforge.storage.loads import MOST_LANES, lanes_that_count
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Transaction


def moment_of(transaction: Transaction, taker: Taker, view: View) -> Moment | None:
    """What a claim from these lanes goes by; None: it depends on no moment."""
    if not view.is_aging:
        return None
    if not view.is_paced:
        return Moment(transaction.now)
    occupancy = transaction.catalog_cache.occupancy_of(taker.project)
    lanes = dict.fromkeys(map(lane_of, occupancy.heads))
    return Moment(transaction.now, is_loaded(transaction, taker.project, lanes))


def is_loaded(seen: Transaction | ReadSnapshot, project: int, held: Iterable[int]) -> bool:
    """`held`: the lanes that hold jobs."""
    cache = seen.catalog_cache
    known = cache.loads.get(project)
    if known is not None:
        return known
    catalog = cache.of(project)
    lanes = [cache.lane(number) for number, _ in zip(held, range(MOST_LANES), strict=False)]
    cards = {queue: cache.card(catalog, queue) for queue in {lane.queue for lane in lanes}}
    counted = lanes_that_count(lanes, cards, catalog.circuits or NO_CIRCUITS)
    arguments = (project, codec.json(counted), seen.steady)
    slots, free, ready = seen.execute(sql("load"), arguments).fetchone()
    return cache.loads.learn(project, len(counted), slots, free, ready)
