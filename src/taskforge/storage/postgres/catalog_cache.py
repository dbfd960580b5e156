"""Keeps what this process remembers of each project's queues, lanes and workers. Statements compare
its version, so what is out of date is found out, and what changed since is read."""

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

import asyncpg

from taskforge.domain.errors import LeaseLost, NotFound, lease_lost, nearest
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import (
    MOST_CHANGES,
    MOST_LANES,
    MOST_PROJECTS,
    Card,
    Catalog,
    Lane,
    LaneKey,
    Remembered,
    Taker,
)
from taskforge.storage.circuits import NO_CIRCUITS, ProjectCircuits, known_circuit
from taskforge.storage.lane_numbers import LaneNumbers
from taskforge.storage.occupancy import Occupancy
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections

READ_TRIES = 3


class CatalogCache:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._catalogs: Remembered[int, Catalog] = Remembered(MOST_PROJECTS)
        self._lanes: Remembered[int, Lane] = Remembered(MOST_LANES)
        self._numbers = LaneNumbers()
        self._projects: Remembered[UUID, int] = Remembered(10 * MOST_PROJECTS)  # of workers
        self.occupancy: Remembered[int, Occupancy] = Remembered(MOST_PROJECTS)
        # queues with a rate that asks whether something waits, and was not told that nothing does
        self.unheard: dict[int, set[int]] = {}

    async def of(self, project: int, *, newer_than: int | None = None) -> Catalog:
        """What this process remembers of a project, brought up to date when a statement found
        version `newer_than` to be out of date."""
        catalog = self._catalogs.get(project)
        if catalog is None:
            rows = await self._connections.fetch("catalog_version", project)
            catalog = self._catalogs.get(project)
            if catalog is None:
                catalog = Catalog(project, rows[0][0] if rows else 0)
                catalog.circuits = None if rows and rows[0]["circuits_stamp"] else NO_CIRCUITS
                self._catalogs.put(project, catalog)
                self.occupancy.drop(project)  # its lanes were judged by what is forgotten
        elif catalog.version == newer_than:
            catalog = await self._bring_up_to_date(catalog)
        return catalog

    async def newest(self, project: int) -> Catalog:
        """What is remembered, if it still holds: a process that neither inserts nor claims hears of
        a new version nowhere else."""
        catalog = await self.of(project)
        return await self._bring_up_to_date(catalog)

    async def _bring_up_to_date(self, catalog: Catalog) -> Catalog:
        known = catalog.version
        rows = await self._connections.fetch(
            "catalog_changes", catalog.project, known, MOST_CHANGES + 1
        )
        in_force = rows[0]["in_force"] if rows else 0
        circuits = catalog.circuits
        if circuits is not None and rows and rows[0]["circuits_stamp"] > known:
            circuits = await self._read_circuits(catalog.project)
        if catalog.version != known or in_force == known:
            return self._catalogs.get(catalog.project) or catalog
        if in_force > known and len(rows) <= MOST_CHANGES:
            changed = catalog.change(
                in_force, [codec.card(row) for row in rows if row["number"] is not None]
            )
            occupancy = self.occupancy.get(catalog.project)
            if occupancy is not None:
                occupancy.judge_again(changed)
                if circuits is not catalog.circuits and circuits and catalog.circuits:
                    occupancy.judge_again(catalog.circuits.changes(circuits))
            catalog.circuits = circuits
            return catalog
        # So much has changed, or the store was put back to an earlier state: begin anew.
        fresh = Catalog(catalog.project, in_force)
        fresh.circuits = None
        self._catalogs.put(catalog.project, fresh)
        self.occupancy.drop(catalog.project)
        return fresh

    def forget(self) -> None:
        for memory in (self._catalogs, self._lanes, self._projects, self.occupancy):
            memory.clear()
        self._numbers.clear()

    # --- Circuits ---

    async def circuits(self, catalog: Catalog) -> ProjectCircuits:
        """Those that claims go by. Read later than the version, they can only be younger, and a
        statement that compares it then refuses."""
        if catalog.circuits is None:
            read = await self._read_circuits(catalog.project)
            if catalog.circuits is None:
                catalog.circuits = read
        return catalog.circuits

    async def _read_circuits(self, project: int) -> ProjectCircuits:
        rows = await self._connections.fetch("catalog_circuits", project)
        return ProjectCircuits(known_circuit(row, tuple(row["types"])) for row in rows)

    # --- Queues ---

    async def cards(self, project: int, numbers: Iterable[int]) -> dict[int, Card]:
        """Queues of one project by their numbers, deleted ones too."""
        catalog = await self.of(project)
        cards: dict[int, Card] = {}
        missing = []
        for number in dict.fromkeys(numbers):
            card = catalog.card(number)
            if card is None:
                missing.append(number)
            else:
                cards[number] = card
        if missing:
            read = await self._read_cards(catalog, "cards", missing)
            cards |= {card.queue.number: card for card in read}
        return cards

    async def cards_named(self, project: int, names: Iterable[str]) -> dict[str, Card]:
        """Live queues by name, or by id; those that are not there are left out."""
        catalog = await self.of(project)
        cards: dict[str, Card] = {}
        missing = []
        for name in dict.fromkeys(names):
            card = catalog.card_named(name)
            if card is None:
                missing.append(name)
            else:
                cards[name] = card
        if missing:
            ids = [
                identifier for name in missing if (identifier := identifier_in(name)) is not None
            ]
            read = await self._read_cards(catalog, "cards_named", project, missing, ids)
            by_name = {card.queue.name: card for card in read}
            by_id = {card.queue.id: card for card in read}
            for name in missing:
                found = by_name.get(name)
                if found is None and (identifier := identifier_in(name)) is not None:
                    found = by_id.get(identifier)
                if found is not None:
                    cards[name] = found
        return cards

    async def _read_cards(self, catalog: Catalog, statement: str, *arguments: object) -> list[Card]:
        """What is older than the catalog that is remembered by now is read again: it must not be
        remembered beside it."""
        cards: list[Card] = []
        for _ in range(READ_TRIES):
            rows = await self._connections.fetch(statement, *arguments)
            cards = [codec.card(row) for row in rows]
            behind = [row for row in rows if row["catalog_version"] < catalog.version]
            if not behind:
                catalog.learn(cards)
                break
            catalog = await self._bring_up_to_date(catalog)
        return cards

    async def queue_named(self, project: int, name: str) -> Queue:
        cards = await self.cards_named(project, [name])
        if name not in cards:
            raise await self.no_queue([project], name)
        return cards[name].queue

    async def read_named(self, connection: Connection, project: int, name: str) -> Card | None:
        """The live queue that a name or an id leads to, as a transaction sees it. Not remembered:
        it may never be committed."""
        identifier = identifier_in(name)
        rows = await connection.fetch(
            self._connections.sql("cards_named"),
            project,
            [name],
            [] if identifier is None else [identifier],
        )
        return codec.card(rows[0]) if rows else None

    async def no_queue(self, projects: Collection[int], name: str) -> NotFound:
        rows = await self._connections.fetch("queue_names", list(projects))
        return NotFound("queue", name, nearest=nearest(name, [row["name"] for row in rows]))

    async def raise_version(self, connection: Connection, project: int) -> int:
        """The version from now on; 0 where there is no such project."""
        version = await connection.fetchval(self._connections.sql("raise_version"), project)
        return int(version or 0)

    # --- Lanes ---

    async def lanes(self, numbers: Iterable[int]) -> dict[int, Lane]:
        lanes: dict[int, Lane] = {}
        missing = []
        for number in numbers:
            lane = self._lanes.get(number)
            if lane is None:
                missing.append(number)
            else:
                lanes[number] = lane
        if missing:
            lanes |= self._remember(await self._connections.fetch("lanes", missing))
        return lanes

    async def lanes_for(self, keys: Collection[LaneKey]) -> dict[LaneKey, Lane]:
        """The lanes of these keys, made where they are new. They are committed at once: whoever
        rolls back leaves an empty lane behind, not one that others remember and nobody finds."""
        lanes, missing = self._known_lanes(keys)
        if missing:
            async with self._connections.connection() as connection:
                lanes |= await self.make_lanes(connection, missing)
            self._remember_all(lanes.values())
        return lanes

    async def find_lanes_for(
        self, keys: Collection[LaneKey]
    ) -> tuple[dict[LaneKey, Lane], set[LaneKey]]:
        """The lanes of these keys that are there, and the keys that have none."""
        lanes, missing = self._known_lanes(keys)
        if missing:
            async with self._connections.connection() as connection:
                found = await self.find_lanes(connection, missing)
            self._remember_all(found.values())
            lanes |= found
        return lanes, {key for key in missing if key not in lanes}

    async def make_lanes(
        self, connection: Connection, keys: Sequence[LaneKey]
    ) -> dict[LaneKey, Lane]:
        """Not remembered: inside a transaction it may hold what is never committed."""
        lanes = await self.find_lanes(connection, keys)
        missing = [key for key in keys if key not in lanes]
        if missing:
            columns = map(list, zip(*missing, strict=True))
            rows = await connection.fetch(self._connections.sql("make_lanes"), *columns)
            lanes |= {lane.key: lane for lane in map(_lane, rows)}
        if len(lanes) < len(keys):  # made by another meanwhile
            lanes |= await self.find_lanes(connection, missing)
        return lanes

    async def find_lanes(
        self, connection: Connection, keys: Sequence[LaneKey]
    ) -> dict[LaneKey, Lane]:
        """Those that are there, to put jobs into: nobody doubts them any more."""
        columns = map(list, zip(*keys, strict=True))
        rows = await connection.fetch(self._connections.sql("find_lanes"), *columns)
        doubted = [row["number"] for row in rows if row["is_doubted"]]
        kept = set()
        if doubted:
            sql = self._connections.sql("keep_lanes")
            kept = {row["number"] for row in await connection.fetch(sql, doubted)}
        return {
            lane.key: lane
            for lane, row in ((_lane(row), row) for row in rows)
            if not row["is_doubted"] or lane.number in kept
        }

    async def look_for_lane(self, connection: Connection, key: LaneKey) -> Lane | None:
        """To look at it; nothing is put there."""
        columns = [[part] for part in key]
        rows = await connection.fetch(self._connections.sql("find_lanes"), *columns)
        return _lane(rows[0]) if rows else None

    def _known_lanes(self, keys: Iterable[LaneKey]) -> tuple[dict[LaneKey, Lane], list[LaneKey]]:
        lanes: dict[LaneKey, Lane] = {}
        missing = []
        for key in keys:
            number = self._numbers.get(key)
            lane = None if number is None else self._lanes.get(number)
            if lane is None:
                missing.append(key)
            else:
                lanes[key] = lane
        return lanes, missing

    def _remember(self, rows: list[asyncpg.Record]) -> dict[int, Lane]:
        """Met by their numbers. One that is doubted is not to be used without a look for it."""
        lanes = {}
        for row in rows:
            lane = lanes[row["number"]] = _lane(row)
            self._lanes.put(lane.number, lane)
            if not row["is_doubted"]:
                self._numbers.put(lane.key, lane.number)
        return lanes

    def _remember_all(self, lanes: Iterable[Lane]) -> None:
        """Just looked for, or made."""
        for lane in lanes:
            self._lanes.put(lane.number, lane)
            self._numbers.put(lane.key, lane.number)

    # --- Workers ---

    async def lost(self, incarnation: UUID) -> LeaseLost:
        """What to tell a worker that has no lease."""
        rows = await self._connections.fetch("how_left", incarnation)
        return (
            lease_lost(incarnation, rows[0]["name"], has_left=rows[0]["has_left"])
            if rows
            else lease_lost(incarnation)
        )

    async def find_taker(self, incarnation: UUID) -> tuple[Taker, int]:
        """The worker behind an incarnation, remembered for as long as the catalog stands, and the
        version as of which both hold. Queues that are read later can only be younger, and a
        statement that compares this version then refuses."""
        project = self._projects.get(incarnation)
        catalog = None if project is None else self._catalogs.get(project)
        taker = None if catalog is None else catalog.takers.get(incarnation)
        if catalog is not None and taker is not None:
            return taker, catalog.version
        rows = await self._connections.fetch("taker", incarnation)
        if not rows:
            raise lease_lost(incarnation)
        taker, version = codec.taker(rows[0]), rows[0]["catalog_version"]
        catalog = await self.of(taker.project)
        if catalog.version != version:
            catalog = await self._bring_up_to_date(catalog)
        if catalog.version == version:
            catalog.takers[incarnation] = taker
            self._projects.put(incarnation, taker.project)
        return taker, min(version, catalog.version)


def _lane(row: asyncpg.Record) -> Lane:
    return Lane(*tuple(row)[:6])


def identifier_in(name: str) -> UUID | None:
    """The id that is written there, if it is one."""
    try:
        identifier = UUID(name)
    except ValueError:
        return None
    return identifier if str(identifier) == name.lower() else None
