"""Whether a project is loaded, as a claim or `explain` sees it."""

from collections.abc import Mapping

from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import Card, Lane, Taker, lane_of
from taskforge.storage.circuits import ProjectCircuits
from taskforge.storage.lane_views import View
from taskforge.storage.loads import MOST_LANES, RememberedLoads, lanes_that_count
from taskforge.storage.occupancy import Occupancy
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connections import PostgresConnections


class Loads:
    def __init__(self, connections: PostgresConnections, catalog_cache: CatalogCache) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._remembered = RememberedLoads()

    async def moment_of(self, taker: Taker, view: View, occupancy: Occupancy) -> Moment | None:
        """What a claim from these lanes goes by; None: it depends on no moment."""
        if not view.is_aging:
            return None
        now = self._connections.microseconds()
        if not view.is_paced:
            return Moment(now)
        known = self._remembered.get(taker.project)
        if known is None:
            known = await self._count(taker.project, occupancy)
        return Moment(now, known)

    async def _count(self, project: int, occupancy: Occupancy) -> bool:
        numbers = list(dict.fromkeys(map(lane_of, occupancy.heads)))[:MOST_LANES]
        catalog = await self._catalog_cache.of(project)
        lanes = await self._catalog_cache.lanes(numbers)
        cards = await self._catalog_cache.cards(project, {lane.queue for lane in lanes.values()})
        circuits = await self._catalog_cache.circuits(catalog)
        return await self.is_loaded(project, lanes, cards, circuits)

    async def is_loaded(
        self,
        project: int,
        held: Mapping[int, Lane],
        cards: Mapping[int, Card],
        circuits: ProjectCircuits,
    ) -> bool:
        """`held`: the lanes that hold jobs."""
        counted = lanes_that_count(held.values(), cards, circuits)
        [row] = await self._connections.fetch(
            "load", project, counted, self._connections.bound_now()
        )
        return self._remembered.learn(
            project, len(counted), row["slots"], row["free"], row["ready"]
        )
