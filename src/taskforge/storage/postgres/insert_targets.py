"""Where new jobs go: queues and lanes, and the versions of the catalogs by which that is so."""

from collections.abc import Collection

from taskforge.domain.errors import Conflict, NotFound
from taskforge.domain.queue import MOST_LANES, Queue, too_many_lanes
from taskforge.storage.catalog import Lane, LaneKey
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connections import PostgresConnections

Kind = tuple[int, str, str, int, str]
"""(project, queue, job type, priority, requires): jobs alike in these go to the same lane."""
Target = NotFound | Conflict | tuple[Queue, Lane]
"""The queue and the lane, or why there is none."""
Versions = dict[int, int]
"""By project the version of its catalog by which jobs were checked."""


class InsertTargets:
    def __init__(self, connections: PostgresConnections, catalog_cache: CatalogCache) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache

    async def find(self, kinds: Collection[Kind]) -> tuple[Versions, dict[Kind, Target]]:
        """Where jobs of each kind go, as of these versions; the first of a new kind makes its lane,
        in the order in which they are given."""
        names: dict[int, set[str]] = {}
        for project, name, *_ in kinds:
            names.setdefault(project, set()).add(name)
        # The versions come first: a queue that is read later can only be younger, and the statement
        # then refuses.
        versions = {project: (await self._catalog_cache.of(project)).version for project in names}
        cards = {
            project: await self._catalog_cache.cards_named(project, wanted)
            for project, wanted in names.items()
        }
        targets: dict[Kind, Target] = {}
        keys: dict[Kind, LaneKey] = {}
        for kind in kinds:
            card = cards[kind[0]].get(kind[1])
            if card is None:
                targets[kind] = await self._catalog_cache.no_queue([kind[0]], kind[1])
            else:
                keys[kind] = (card.queue.number, *kind[2:])
        lanes = await self._lanes(keys)
        for kind, key in keys.items():
            lane = lanes[key]
            targets[kind] = (
                (cards[kind[0]][kind[1]].queue, lane) if isinstance(lane, Lane) else lane
            )
        return versions, targets

    async def _lanes(self, keys: dict[Kind, LaneKey]) -> dict[LaneKey, Lane | Conflict]:
        """The lanes of these keys, made where they are new and the project may have more."""
        cache = self._catalog_cache
        known, missing = await cache.find_lanes_for(dict.fromkeys(keys.values()))
        lanes: dict[LaneKey, Lane | Conflict] = {**known}
        if not missing:
            return lanes
        new: dict[int, list[LaneKey]] = {}
        for kind, key in keys.items():
            if key in missing and key not in new.setdefault(kind[0], []):
                new[kind[0]].append(key)
        for project, some in new.items():
            [row] = await self._connections.fetch("room_for_lanes", project, MOST_LANES)
            lanes |= {key: too_many_lanes(row["most"]) for key in some[row["room"] :]}
            if row["room"]:
                lanes |= await cache.lanes_for(some[: row["room"]])
        return lanes

    async def update(self, versions: Versions) -> None:
        """A statement found one of them to be out of date."""
        for project, version in versions.items():
            await self._catalog_cache.of(project, newer_than=version)

    async def are_in_force(self, versions: Versions) -> bool:
        for project, version in versions.items():
            rows = await self._connections.fetch("catalog_version", project)
            if (rows[0][0] if rows else 0) != version:
                return False
        return True


def lanes_of(targets: list[Target], indexes: list[int]) -> list[Lane]:
    lanes = []
    for index in indexes:
        target = targets[index]
        assert isinstance(target, tuple)
        lanes.append(target[1])
    return lanes
