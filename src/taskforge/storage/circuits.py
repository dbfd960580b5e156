"""What both engines know of circuits: those that claims go by, as part of a project's catalog, and
how one moves on.

A claim pays for none: whether a circuit is shut is part of the catalog, whose version each claim
proves, and the lanes behind one that is shut are not open to anybody. Only while one is half-open
do claims from its lanes lock its row, to count probes. What came of executions is counted in the
store by whoever ends them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from taskforge.domain.breaker import (
    Breaker,
    BreakerState,
    Endings,
    due_at,
    record_all,
    room,
    use,
)
from taskforge.domain.circuit import HeldCircuit, circuit_topic
from taskforge.domain.queue import Queue, QueueSettings

# Statements of records that the engines' own transactions use too
SET, RAISE, ADD, TELL = "set_circuit", "raise_circuits", "add_circuit", "add_event"
_breaker = msgspec.json.Decoder(Breaker).decode
_state = msgspec.json.Decoder(BreakerState).decode
_encode = msgspec.json.Encoder().encode


class CircuitRow(msgspec.Struct, frozen=True):
    """As the store has it."""

    number: int
    queue: int | None
    job_type: str | None
    dependency: str | None
    settings: str | None
    state: str

    def breaker(self, settings: QueueSettings | None) -> Breaker:
        """By its own thresholds, or those of its queue."""
        if self.settings is not None:
            return _breaker(self.settings)
        return (settings and settings.circuit_breaker) or Breaker()


class KnownCircuit(msgspec.Struct, frozen=True):
    """As claims know it."""

    number: int
    queue: int | None
    job_type: str | None
    dependency: str | None
    settings: str | None
    mode: str
    room: int | None
    state: str
    types: tuple[str, ...]  # that depend on it

    def held(self, settings: QueueSettings) -> HeldCircuit:
        state = _state(self.state)
        breaker = settings.circuit_breaker if self.settings is None else _breaker(self.settings)
        at = due_at(breaker or Breaker(), state)
        due = None if at is None else datetime.fromtimestamp(at, UTC)
        return HeldCircuit(self.dependency, state.mode, self.room or 0, state.forced, due)


def known_circuit(row: Iterable[Any], types: tuple[str, ...]) -> KnownCircuit:
    """From a row of catalog_circuits.sql, whose last column lists types as its engine does."""
    number, queue, job_type, dependency, settings, mode, room, state, _ = row
    return KnownCircuit(number, queue, job_type, dependency, settings, mode, room, state, types)


class ProjectCircuits:
    """Those of one project, as of a version of its catalog."""

    __slots__ = ("_of_type", "_pairs", "known")

    def __init__(self, known: Iterable[KnownCircuit] = ()) -> None:
        self.known = {one.number: one for one in known}
        self._pairs = {
            (one.queue, one.job_type): one
            for one in self.known.values()
            if one.dependency is None and one.room is not None
        }
        self._of_type: dict[str, list[KnownCircuit]] = {}
        for one in self.known.values():
            for job_type in one.types:
                self._of_type.setdefault(job_type, []).append(one)

    def guards(self, queue: Queue, job_type: str) -> list[KnownCircuit]:
        """Those that let not everything of this type and queue through. One that is open because of
        thresholds which the queue has no more holds nothing."""
        if not self.known:
            return []
        found = [one for one in self._of_type.get(job_type, ()) if one.room is not None]
        own = self._pairs.get((queue.number, job_type))
        if own is not None and (
            queue.settings.circuit_breaker is not None or _state(own.state).forced
        ):
            found.append(own)
        return found

    def held(self, queue: Queue, job_type: str) -> tuple[HeldCircuit, ...]:
        """The same, as `explain` tells of them."""
        return tuple(one.held(queue.settings) for one in self.guards(queue, job_type))

    def lets_through(self, queue: Queue, job_type: str) -> bool:
        """The one rule for claims and for `explain`."""
        return all(one.room != 0 for one in self.guards(queue, job_type))

    def probing(self, queue: Queue, job_type: str) -> tuple[int, ...]:
        """The half-open ones, by their numbers: their rows say how many may go through."""
        return tuple(one.number for one in self.guards(queue, job_type))

    def is_counted(self, queue: Queue, job_type: str) -> bool:
        """Whether a circuit must hear of what came of executions."""
        return queue.settings.circuit_breaker is not None or job_type in self._of_type

    def counting(self, job_type: str) -> tuple[int, ...]:
        """The dependencies that must hear of it, by their numbers."""
        return tuple(one.number for one in self._of_type.get(job_type, ()))

    def is_closed(self, queue: Queue, job_type: str) -> bool:
        return not self.guards(queue, job_type)

    def changes(self, after: "ProjectCircuits") -> set[int] | None:
        """The queues whose lanes must be judged anew; None: any may have to be."""
        queues = set()
        for number in self.known.keys() | after.known.keys():
            old, new = self.known.get(number), after.known.get(number)
            if old == new:
                continue
            for one in (old, new):
                if one is not None and one.queue is None:
                    return None
                if one is not None and one.queue is not None:
                    queues.add(one.queue)
        return queues


NO_CIRCUITS = ProjectCircuits()


class Moved(msgspec.Struct, frozen=True):
    """How a circuit stands after something happened to it."""

    row: CircuitRow
    before: BreakerState
    after: BreakerState
    breaker: Breaker

    @property
    def is_told(self) -> bool:
        """Whether claims must hear of it: of another mode, or that room for probes is gone, or
        there again."""
        old, new = (room(self.breaker, one) for one in (self.before, self.after))
        return self.before.mode is not self.after.mode or (old == 0) != (new == 0)

    @property
    def at(self) -> datetime:
        """When it came into its mode."""
        return datetime.fromtimestamp(self.after.since, UTC)

    @property
    def columns(self) -> tuple[Any, ...]:
        """Those of set_circuit.sql."""
        at = due_at(self.breaker, self.after)
        return (
            self.row.number,
            self.before.turn,
            self.after.mode.value,
            room(self.breaker, self.after),
            _encode(self.after).decode(),
            None if at is None else datetime.fromtimestamp(at, UTC),
            self.after.turn,
        )

    def event(self, queue: str | None) -> tuple[str, str] | None:
        """Topic and details of what readers of events hear; `queue`: the name of its queue."""
        if self.before.mode is self.after.mode:
            return None
        details = {
            "queue": queue,
            "job_type": self.row.job_type,
            "dependency": self.row.dependency,
            "by_hand": self.after.forced,
        }
        given = {name: value for name, value in details.items() if value is not None}
        return circuit_topic(self.after.mode), _encode(given).decode()


def heard(
    row: CircuitRow, settings: QueueSettings | None, endings: Iterable[Endings]
) -> Moved | None:
    """The circuit after these executions ended under it; None: it stands as before."""
    before, breaker = _state(row.state), row.breaker(settings)
    after = record_all(breaker, before, endings)
    return None if after == before else Moved(row, before, after, breaker)


def state_of(row: CircuitRow) -> BreakerState:
    return _state(row.state)


class Probes:
    """How many probes half-open circuits let one claim take, and how many it took."""

    __slots__ = ("_now", "_rooms", "_rows", "_settings", "_used")

    def __init__(self, now: float) -> None:
        self._now = now
        self._rows: dict[int, CircuitRow] = {}
        self._settings: dict[int, QueueSettings] = {}
        self._rooms: dict[int, int] = {}
        self._used: dict[int, int] = {}

    def lock(self, row: CircuitRow, settings: QueueSettings) -> None:
        """The claim holds this circuit."""
        self._rows[row.number], self._settings[row.number] = row, settings
        left = room(row.breaker(settings), _state(row.state))
        self._rooms[row.number] = 2**31 if left is None else left

    def allow(self, circuits: Sequence[int], wanted: int) -> int:
        """Of so many jobs behind these circuits those that may be asked for, besides what was
        allowed before."""
        allowed = min([wanted, *(self._rooms.get(number, 0) for number in circuits)])
        for number in circuits:
            if number in self._rooms:
                self._rooms[number] -= max(0, allowed)
        return max(0, allowed)

    def take(self, circuits: Sequence[int], jobs: int) -> None:
        for number in circuits:
            self._used[number] = self._used.get(number, 0) + jobs

    def __contains__(self, number: object) -> bool:
        return number in self._rows

    def moved(self) -> list[Moved]:
        found = []
        for number, jobs in self._used.items():
            row, state = self._rows[number], _state(self._rows[number].state)
            after = use(state, jobs, self._now)
            if after != state:
                found.append(Moved(row, state, after, row.breaker(self._settings[number])))
        return found


def settings_of(row: CircuitRow, queues: Mapping[int, Queue]) -> QueueSettings | None:
    return None if row.queue is None else queues[row.queue].settings
