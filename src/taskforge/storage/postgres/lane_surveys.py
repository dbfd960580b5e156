"""Keeps what this process knows of the lanes that hold jobs: hears of arrivals, makes surveys, and
judges what a worker may take."""

import time
from collections.abc import Iterable

import msgspec

from taskforge.domain.fairness import NO_KEY
from taskforge.storage.catalog import Taker, key_of_spot, lane_of, spot_of
from taskforge.storage.lane_views import View
from taskforge.storage.occupancy import LANES_IN_ONE_SURVEY, Occupancy
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.signals import Arrival, Signals


class Doubt(msgspec.Struct, frozen=True):
    """Why a claim took nothing."""

    version: int | None  # of the catalog that is in force
    is_alive: bool
    more: bool  # a survey has ended at some lane, and goes on behind it


class LaneSurveys:
    def __init__(
        self, connections: PostgresConnections, catalog_cache: CatalogCache, signals: Signals
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        signals.on_arrivals = self._hear

    def _hear(self, arrivals: Iterable[Arrival] | None) -> None:
        known = self._catalog_cache.occupancy
        if arrivals is None:
            for occupancy in known.values():
                occupancy.survey_soon()
            return
        for project, lane, turn in arrivals:
            told = known.get(project)
            if told is not None:
                told.tell(lane, turn)

    def occupancy_of(self, project: int) -> Occupancy:
        occupancy = self._catalog_cache.occupancy.get(project)
        if occupancy is None:
            occupancy = Occupancy()
            self._catalog_cache.occupancy.put(project, occupancy)
        return occupancy

    def may_survey(self, project: int) -> bool:
        return self.occupancy_of(project).may_survey(time.monotonic())

    async def view(self, taker: Taker) -> View:
        """The lanes that a worker may take, all judged that are known to hold jobs."""
        while True:
            catalog = await self._catalog_cache.of(taker.project)
            occupancy = self.occupancy_of(taker.project)
            view = occupancy.view(taker)
            if not view.unjudged:
                return view
            version, numbers = catalog.version, list(view.unjudged)
            lanes = await self._catalog_cache.lanes(numbers)
            cards = await self._catalog_cache.cards(
                taker.project, {lane.queue for lane in lanes.values()}
            )
            circuits = await self._catalog_cache.circuits(catalog)
            if catalog.version != version or view is not self.occupancy_of(taker.project).view(
                taker
            ):
                continue  # a queue has changed meanwhile: this may be how it was before
            if any(card.names_workers for card in cards.values()):
                occupancy.serves_some()
                view = occupancy.view(taker)
            view.judge(numbers, lanes, cards, circuits)

    async def survey(self, project: int) -> None:
        """See which lanes hold jobs, or the next so many of them."""
        occupancy = self.occupancy_of(project)
        moment, started, behind = occupancy.moment, time.monotonic(), occupancy.walked
        rows = await self._connections.fetch(
            "occupied", project, *survey_behind(behind), LANES_IN_ONE_SURVEY
        )
        now = time.monotonic()
        if occupancy.walked == behind:  # else another survey was quicker
            found = [(spot_of(row["lane"], row["key"] or NO_KEY), row["turn"]) for row in rows]
            occupancy.survey(found, moment, now, now - started)

    async def doubt(self, taker: Taker, *, survey: bool) -> Doubt:
        """Why a claim took nothing; with a survey in the same round trip."""
        occupancy = self.occupancy_of(taker.project)
        moment, started, behind = occupancy.moment, time.monotonic(), occupancy.walked
        [row] = await self._connections.fetch(
            "claim_doubt",
            taker.incarnation,
            self._connections.bound_now(),
            taker.project,
            survey,
            *survey_behind(behind),
            LANES_IN_ONE_SURVEY,
        )
        if survey and occupancy.walked == behind:
            now = time.monotonic()
            columns = row["lanes"] or (), row["keys"] or (), row["turns"] or ()
            found = [
                (spot_of(lane, key or NO_KEY), turn)
                for lane, key, turn in zip(*columns, strict=True)
            ]
            occupancy.survey(found, moment, now, now - started)
        return Doubt(row["version"], row["alive"], survey and occupancy.walked > behind)


def survey_behind(spot: int) -> tuple[int | None, int, int]:
    """Where a survey goes on behind this spot: behind which lane, or behind which lane and key of
    jobs that have one."""
    key = key_of_spot(spot)
    return (spot, 0, 0) if key == NO_KEY else (None, lane_of(spot), key)
