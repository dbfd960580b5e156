"""Keeps what one connection remembers of the queues, lanes and workers of each project, and proves
inside each transaction that it is still so."""

import logging
import sqlite3
import time
from collections.abc import Collection
from typing import Any
from uuid import UUID

from taskforge.domain.errors import LeaseLost, NotFound, lease_lost, nearest
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import (
    MOST_CHANGES,
    MOST_LANES,
    MOST_PROJECTS,
    Card,
    Catalog,
    Lane,
    LaneKey,
    OpenLane,
    Remembered,
    Taker,
    key_of_spot,
    lane_of,
    spot_of,
)
from taskforge.storage.circuits import NO_CIRCUITS, ProjectCircuits, known_circuit
from taskforge.storage.lane_numbers import LaneNumbers
from taskforge.storage.lane_views import View
from taskforge.storage.loads import RememberedLoads
from taskforge.storage.occupancy import LANES_IN_ONE_SURVEY, Occupancy
from taskforge.storage.sqlite import codec
from taskforge.storage.statements import statement

PACKAGE = "taskforge.storage.sqlite"
logger = logging.getLogger("taskforge.storage")


def sql(name: str) -> str:
    return statement(PACKAGE, name)


class CatalogCache:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._catalogs: Remembered[int, Catalog] = Remembered(MOST_PROJECTS)
        self._projects: Remembered[int, int] = Remembered(MOST_LANES)  # of queues
        self._lanes: Remembered[int, Lane] = Remembered(MOST_LANES)
        self._numbers = LaneNumbers()
        self._takers: Remembered[UUID, tuple[int, int, tuple[Taker, int]]] = Remembered(
            10 * MOST_PROJECTS
        )
        self.occupancy: Remembered[int, Occupancy] = Remembered(MOST_PROJECTS)
        # queues with a rate that asks whether something waits, and was not told that nothing does
        self.unheard: dict[int, dict[int, OpenLane]] = {}
        self.loads = RememberedLoads()
        self.news: list[str] = []  # for the log, once it is committed
        # projects whose catalog was proven in the writer's transaction, where nobody else writes
        self._proven: set[int] | None = None

    def begin(self) -> None:
        """The writer's transaction begins: what is proven in it holds until it ends."""
        self._proven = set()

    def forget(self) -> None:
        """After a rollback, what is remembered may never have been; its version number may come to
        mean something else."""
        for memory in (self._catalogs, self._lanes, self._takers, self.occupancy):
            memory.clear()
        self._numbers.clear()
        self._projects.clear()
        self.news.clear()
        if self._proven is not None:
            self._proven.clear()

    def tell_news(self) -> None:
        for line in self.news:
            logger.warning("%s", line)
        self.news.clear()

    def of(self, project: int) -> Catalog:
        """What is remembered of a project, as of the transaction that is open; no transaction can
        change it under the writer's."""
        if self._proven is None:
            return self._prove(project)
        catalog = self._catalogs.get(project) if project in self._proven else None
        if catalog is None:
            catalog = self._prove(project)
            self._proven.add(project)
        return catalog

    def _prove(self, project: int) -> Catalog:
        row = self._connection.execute(sql("catalog_version"), (project,)).fetchone()
        version, stamp = row or (0, 0)
        catalog = self._catalogs.get(project)
        if catalog is not None and catalog.version == version:
            return catalog
        is_behind = catalog is not None and catalog.version < version
        if (
            catalog is not None
            and is_behind
            and self._change(catalog, catalog.version, version, stamp)
        ):
            return catalog
        # So much has changed, or the file was put back to an earlier state: begin anew.
        catalog = Catalog(project, version)
        catalog.circuits = self._read_circuits(project) if stamp else NO_CIRCUITS
        self._catalogs.put(project, catalog)
        self.occupancy.drop(project)
        return catalog

    def _read_circuits(self, project: int) -> ProjectCircuits:
        rows = self._connection.execute(sql("catalog_circuits"), (project,)).fetchall()
        return ProjectCircuits(known_circuit(row, codec.texts(row[-1]) or ()) for row in rows)

    def _change(self, catalog: Catalog, behind: int, version: int, stamp: int = 0) -> bool:
        """Go on to this version with what changed behind another, unless that is too much. `stamp`:
        the version at which circuits last changed."""
        arguments = (catalog.project, behind, MOST_CHANGES + 1)
        rows = self._connection.execute(sql("catalog_changes"), arguments).fetchall()
        if len(rows) > MOST_CHANGES:
            return False
        changed = catalog.change(version, map(codec.card, rows))
        occupancy = self.occupancy.get(catalog.project)
        if occupancy is not None:
            occupancy.judge_again(changed)
        if stamp > behind and catalog.circuits is not None:
            circuits = self._read_circuits(catalog.project)
            if occupancy is not None:
                occupancy.judge_again(catalog.circuits.changes(circuits))
            catalog.circuits = circuits
        return True

    def raise_version(self, project: int) -> int:
        """The version from now on; 0 where there is no such project."""
        self.doubt(project)
        row = self._connection.execute(sql("raise_version"), (project,)).fetchone()
        return int(row[0]) if row else 0

    def doubt(self, project: int) -> None:
        """The version has been raised in this transaction."""
        if self._proven is not None:
            self._proven.discard(project)

    def reread(self, project: int, version: int) -> None:
        """Queues have changed in this transaction, which raised the version to this one first and
        may have read them before."""
        self._change(self.of(project), version - 1, version)

    # --- Queues ---

    def card(self, catalog: Catalog, number: int) -> Card:
        """A queue of this project, deleted or not."""
        card = catalog.card(number)
        if card is None:
            card = codec.card(self._connection.execute(sql("card"), (number,)).fetchone())
            catalog.learn([card])
        return card

    def queue(self, number: int) -> Queue:
        """A queue of whatever project, as it is now."""
        return codec.card(self._connection.execute(sql("card"), (number,)).fetchone()).queue

    def project_of(self, queue: int) -> int:
        project = self._projects.get(queue)
        if project is None:
            row = self._connection.execute(sql("project_of"), (queue,)).fetchone()
            project = int(row[0])
            self._projects.put(queue, project)
        return project

    def queue_in(self, lane: Lane) -> Queue:
        return self.card(self.of(lane.project), lane.queue).queue

    def card_of(self, catalog: Catalog, identifier: UUID) -> Card:
        """A queue of this project by its id, deleted or not."""
        row = self._connection.execute(sql("queue_of"), (identifier.bytes,)).fetchone()
        return self.card(catalog, row[0])

    def find_named(self, catalog: Catalog, name: str) -> Card | None:
        """The live queue with this name, else the one whose id this is."""
        card = catalog.card_named(name)
        if card is None:
            arguments = (catalog.project, name, codec.identifier_bytes(name))
            row = self._connection.execute(sql("card_named"), arguments).fetchone()
            if row is None:
                return None
            card = codec.card(row)
            catalog.learn([card])
        return card

    def queue_named(self, project: int, name: str) -> Queue:
        card = self.find_named(self.of(project), name)
        if card is None:
            raise self.no_queue([project], name)
        return card.queue

    def queue_with_id(self, project: int, identifier: UUID) -> Queue:
        card = self.find_named(self.of(project), str(identifier))
        if card is None or card.queue.id != identifier:
            raise NotFound("queue", str(identifier))
        return card.queue

    def queues_named(self, projects: Collection[int], name: str) -> list[int]:
        """The same over several projects, of which more than one may have a queue of that name."""
        cards = [self.find_named(self.of(project), name) for project in dict.fromkeys(projects)]
        queues = [card.queue for card in cards if card is not None]
        if not queues:
            raise self.no_queue(projects, name)
        named = [queue.number for queue in queues if queue.name == name]
        return named or [queue.number for queue in queues]

    def no_queue(self, projects: Collection[int], name: str) -> NotFound:
        rows = self._connection.execute(sql("queue_names"), (codec.json(list(projects)),))
        return NotFound("queue", name, nearest=nearest(name, [known for (known,) in rows]))

    # --- Lanes ---

    def lane(self, number: int) -> Lane:
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._met(self._connection.execute(sql("lane"), (number,)).fetchone())
        return lane

    def find_lane(self, key: LaneKey) -> Lane | None:
        number = self._numbers.get(key)
        if number is not None:
            return self.lane(number)
        row = self._connection.execute(sql("find_lane"), key).fetchone()
        return None if row is None else self._met(row)

    def lane_for(self, project: int, key: LaneKey) -> Lane:
        """The lane of this key to put jobs into, made where it is new; nobody doubts it any
        more."""
        lane = self.find_lane(key)
        if lane is None:
            row = self._connection.execute(sql("make_lane"), (project, *key)).fetchone()
            lane = Lane(row[0], project, *key)
            self._lanes.put(lane.number, lane)
        elif self._numbers.get(key) is None:
            self._connection.execute(sql("keep_lane"), (lane.number,))
        self._numbers.put(key, lane.number)
        return lane

    def _met(self, row: tuple[Any, ...]) -> Lane:
        """One that is doubted is not to be used without a look for it."""
        *columns, is_doubted = row
        lane = Lane(*columns)
        self._lanes.put(lane.number, lane)
        if not is_doubted:
            self._numbers.put(lane.key, lane.number)
        return lane

    # --- Workers ---

    def find_taker(self, incarnation: UUID, now: int) -> tuple[Taker, int]:
        """A worker and its slots, remembered for as long as its project's catalog stands;
        `LeaseLost` when its lease does not."""
        row = self._connection.execute(sql("lease"), (incarnation.bytes,)).fetchone()
        if row is None or row[0] <= now:
            self._takers.drop(incarnation)
            raise self.lost(incarnation)
        project, version = row[1], self.of(row[1]).version
        known = self._takers.get(incarnation)
        if known is not None and known[:2] == (project, version):
            return known[2]
        *columns, slots = self._connection.execute(sql("taker"), (incarnation.bytes,)).fetchone()
        found = (codec.taker(columns), slots)
        self._takers.put(incarnation, (project, version, found))
        return found

    def lost(self, incarnation: UUID) -> LeaseLost:
        """What to tell a worker that has no lease."""
        name, has_left = self._connection.execute(
            sql("how_left"), (incarnation.bytes,)
        ).fetchone() or (
            None,
            0,
        )
        return lease_lost(incarnation, name, has_left=bool(has_left))

    def live_takers(self, now: int) -> list[Taker]:
        """Every worker whose lease is alive and that goes on claiming: for one that is drained or
        stops nobody waits."""
        rows = self._connection.execute(sql("takers"), (now,)).fetchall()
        return [codec.taker(row) for row in rows]

    # --- Lanes that hold jobs ---

    def occupancy_of(self, project: int) -> Occupancy:
        occupancy = self.occupancy.get(project)
        if occupancy is None:
            occupancy = Occupancy()
            self.occupancy.put(project, occupancy)
        return occupancy

    def tell(self, project: int, lane: int, turn: int, key: int = NO_KEY) -> None:
        """A job came to this lane, or will when the transaction is committed."""
        occupancy = self.occupancy.get(project)
        if occupancy is not None:
            occupancy.tell(spot_of(lane, key), turn)

    def survey(self, project: int) -> None:
        """See which lanes of the project hold jobs, or the next so many of them."""
        occupancy = self.occupancy_of(project)
        moment, started = occupancy.moment, time.monotonic()
        lane, key = lane_of(occupancy.walked), key_of_spot(occupancy.walked)
        behind = (lane, LANES_IN_ONE_SURVEY, 0) if key == NO_KEY else (None, 0, lane)
        rows = self._connection.execute(sql("occupied"), (project, *behind)).fetchall()
        lanes = [(number, turn) for number, turn, is_keyed in rows if not is_keyed]
        found = [(number, turn) for number, turn in lanes if turn is not None]
        stopped_at = lanes[-1][0] if len(lanes) >= LANES_IN_ONE_SURVEY else None
        for number, _, is_keyed in rows:
            room = LANES_IN_ONE_SURVEY - len(found)
            if is_keyed and stopped_at is None and room > 0:
                after = key if number == lane else NO_KEY
                keys = self._connection.execute(
                    sql("occupied_keys"), (project, number, after, room)
                ).fetchall()
                found += [(spot_of(number, held), turn) for held, turn in keys]
        now = time.monotonic()
        occupancy.survey(found, moment, now, now - started, stopped_at)

    def view(self, taker: Taker) -> View:
        """The lanes that a worker may take, all judged that are known to hold jobs."""
        catalog, occupancy = self.of(taker.project), self.occupancy_of(taker.project)
        while (view := occupancy.view(taker)).unjudged:
            lanes = {number: self.lane(number) for number in view.unjudged}
            queues = {lane.queue for lane in lanes.values()}
            cards = {queue: self.card(catalog, queue) for queue in queues}
            if any(card.names_workers for card in cards.values()):
                occupancy.serves_some()
            circuits = catalog.circuits or NO_CIRCUITS
            occupancy.view(taker).judge(list(lanes), lanes, cards, circuits)
        return view
