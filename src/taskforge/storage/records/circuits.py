"""Circuits as their owners see and steer them, what job types depend on, and what time alone
changes. Claims and endings move circuits too: `storage/circuits.py`."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.breaker import Breaker, BreakerState, Mode, count, force, wake
from taskforge.domain.circuit import Circuit, CircuitName, check_circuit_name, parse_breaker
from taskforge.domain.errors import Conflict, NotFound, Stale, nearest
from taskforge.domain.queue import QueueSettings
from taskforge.domain.rules import text
from taskforge.domain.worker import NewWorker
from taskforge.ports.records import Records, Step
from taskforge.storage.circuits import CircuitRow, Moved
from taskforge.storage.records.audit_log import audit_step

TRIES = 5  # what ends meanwhile may move a circuit on
MOST_DEPENDENCIES = 1_000
"""Of a project."""
_breaker = msgspec.json.Decoder(Breaker).decode
_state = msgspec.json.Decoder(BreakerState).decode
_settings = msgspec.json.Decoder(QueueSettings).decode
_encode = msgspec.json.Encoder().encode


class _Row(msgspec.Struct, frozen=True):
    number: int
    project: int
    queue_id: UUID | None
    queue: str | None
    job_type: str | None
    dependency: str | None
    settings: msgspec.Raw | None
    queue_settings: msgspec.Raw | None
    state: msgspec.Raw
    due_at: datetime | None

    @property
    def breaker(self) -> Breaker | None:
        if self.settings is not None:
            return _breaker(self.settings)
        return (
            None if self.queue_settings is None else _settings(self.queue_settings).circuit_breaker
        )

    def moved(self, after: BreakerState) -> Moved:
        row = CircuitRow(self.number, None, self.job_type, self.dependency, None, "")
        return Moved(row, _state(self.state), after, self.breaker or Breaker())

    def steps(self, after: BreakerState) -> list[Step]:
        """A write that moves it, if nothing else has meanwhile."""
        moved = self.moved(after)
        event = moved.event(self.queue)
        steps = [
            Step("set_circuit", moved.columns, partial(Stale, "the circuit has moved meanwhile")),
            Step("raise_circuits", (self.project,)),
        ]
        if event is not None:
            steps.append(Step("add_event", (self.project, *event, moved.at)))
        return steps

    def circuit(self, job_types: tuple[str, ...]) -> Circuit:
        state = _state(self.state)
        succeeded, failed = count(state)
        return Circuit(
            number=self.number,
            project=self.project,
            queue_id=self.queue_id,
            queue=self.queue,
            job_type=self.job_type,
            dependency=self.dependency,
            job_types=job_types,
            mode=state.mode,
            is_forced=state.forced,
            since=datetime.fromtimestamp(state.since, UTC) if state.since else None,
            due_at=self.due_at,
            succeeded=succeeded,
            failed=failed,
            probes_asked=state.asked,
            probes_passed=state.passed,
            circuit_breaker=self.breaker,
        )


class _Number(msgspec.Struct, frozen=True):
    number: int


class _Name(msgspec.Struct, frozen=True):
    name: str


class _Dependent(msgspec.Struct, frozen=True):
    circuit: int
    job_type: str
    dependency: str


class CircuitRecords:
    """Implements `ports.circuits.Circuits`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    # --- Reading ---

    async def circuits(
        self,
        projects: Sequence[int],
        *,
        mode: Mode | None = None,
        after: int = 0,
        limit: int = 1_000,
    ) -> list[Circuit]:
        found: list[Circuit] = []
        for project in projects:
            values = (project, after, limit, "" if mode is None else mode.value)
            rows = await self._records.look(_Row, "circuits", *values)
            types = await self._types(project) if rows else {}
            found += [row.circuit(types.get(row.number, ())) for row in rows]
        return sorted(found, key=lambda one: one.number)[:limit]

    async def _types(self, project: int) -> dict[int, tuple[str, ...]]:
        """Those that depend on something, by its circuit."""
        types: dict[int, tuple[str, ...]] = {}
        for one in await self._records.look(_Dependent, "dependents", project):
            types[one.circuit] = (*types.get(one.circuit, ()), one.job_type)
        return types

    async def _find(self, project: int, name: CircuitName) -> _Row | None:
        if name.dependency is not None:
            values = (project, name.dependency)
            rows = await self._records.look(_Row, "circuit_by_dependency", *values)
        else:
            queue = await self._queue(project, name)
            rows = await self._records.look(_Row, "circuit_by_type", queue, name.job_type)
        return rows[0] if rows else None

    async def _queue(self, project: int, name: CircuitName) -> int:
        found = await self._records.look(_Number, "queue_called", project, name.queue)
        if not found:
            raise NotFound("queue", str(name.queue))
        return found[0].number

    async def _found(self, project: int, name: CircuitName) -> _Row:
        """The circuit that is meant. One of a queue is made where there is none yet."""
        row = await self._find(project, name)
        if row is None and name.dependency is not None:
            known = await self._records.look(_Name, "dependencies", project)
            near = nearest(name.dependency, [one.name for one in known])
            raise NotFound("dependency", name.dependency, nearest=near)
        if row is None:
            pair = (await self._queue(project, name), name.job_type)
            await self._records.write([Step("add_circuit", (project, *pair, None, None))])
            row = await self._find(project, name)
        assert row is not None
        return row

    # --- Changing ---

    async def move(
        self, project: int, name: CircuitName, mode: Mode, note: Note | None = None
    ) -> Circuit:
        check_circuit_name(name)
        tries = 0
        while True:
            row, now = await self._found(project, name), await self._records.now()
            after = force(_state(row.state), mode, now.timestamp())
            steps = row.steps(after)
            if note is not None:
                steps.append(_noted(note, now, row, {"mode": _state(row.state).mode}, after))
            try:
                await self._records.write(steps)
            except Stale:
                tries += 1
                if tries == TRIES:
                    raise
            else:
                break
        return await self._shown(project, name)

    async def _shown(self, project: int, name: CircuitName) -> Circuit:
        row = await self._found(project, name)
        return row.circuit((await self._types(project)).get(row.number, ()))

    async def set_dependency(
        self, project: int, name: str, breaker: Breaker, note: Note | None = None
    ) -> Circuit:
        text("name", name, most=100)
        breaker = parse_breaker("circuit_breaker", breaker)
        now, meant = await self._records.now(), CircuitName(dependency=name)
        known = [one.name for one in await self._records.look(_Name, "dependencies", project)]
        _check_room({*known, name})
        before = await self._find(project, meant)
        steps = [
            Step("set_dependency", (project, name, _encode(breaker).decode())),
            Step("raise_circuits", (project,)),
        ]
        if note is not None:
            old = None if before is None else {"circuit_breaker": before.breaker}
            new = {"circuit_breaker": breaker}
            target = f"dependency {name}"
            steps.append(audit_step(note, now, target, project=project, before=old, after=new))
        await self._records.write(steps)
        return await self._shown(project, meant)

    async def remove_dependency(self, project: int, name: str, note: Note | None = None) -> None:
        """A worker whose types depend on it makes it anew when it registers."""
        row = await self._found(project, CircuitName(dependency=name))
        now = await self._records.now()
        steps = [
            Step("remove_dependency", (project, name)),
            Step("raise_circuits", (project,)),
        ]
        if note is not None:
            old = {"circuit_breaker": row.breaker}
            target = f"dependency {name}"
            steps.append(audit_step(note, now, target, project=project, before=old, after=None))
        await self._records.write(steps)

    # --- What time does ---

    async def wake_due(self, limit: int) -> int:
        """Circuits that were open for long enough let probes through, and those whose probes never
        answered let others through. Returns how many were due."""
        now = await self._records.now()
        rows = await self._records.look(_Row, "due_circuits", now, limit)
        for row in rows:
            after = wake(row.breaker or Breaker(), _state(row.state), now.timestamp())
            with suppress(Stale):  # another process was first
                await self._records.write(row.steps(after))
        return len(rows)


async def declare_dependencies(records: Records, project: int, worker: NewWorker) -> None:
    """What a worker's job types depend on is what the worker says that registered last."""
    types = worker.depends_on if worker.types is None else worker.types
    if not types:
        return
    known = await records.look(_Dependent, "dependents", project)
    before: dict[str, set[str]] = {}
    for one in known:
        before.setdefault(one.job_type, set()).add(one.dependency)
    changed = {
        one: names
        for one in types
        if (names := set(worker.depends_on.get(one, ()))) != before.get(one, set())
    }
    if not changed:
        return
    wanted = sorted({name for some in changed.values() for name in some})
    listed = [one.name for one in await records.look(_Name, "dependencies", project)]
    _check_room({*listed, *wanted})
    steps = [Step("add_circuit", (project, None, None, name, "{}")) for name in wanted]
    for job_type, some in changed.items():
        steps.append(Step("remove_dependents", (project, job_type)))
        steps += [Step("add_dependent", (project, job_type, name)) for name in sorted(some)]
    await records.write([*steps, Step("raise_circuits", (project,))])


def _check_room(names: set[str]) -> None:
    if len(names) > MOST_DEPENDENCIES:
        raise Conflict(f"a project has at most {MOST_DEPENDENCIES:,} dependencies")


def _noted(
    note: Note, now: datetime, row: _Row, before: dict[str, Any], after: BreakerState
) -> Step:
    target = (
        f"circuit of dependency {row.dependency}"
        if row.dependency is not None
        else f"circuit of job type {row.job_type} of queue {row.queue} ({row.queue_id})"
    )
    new = {"mode": after.mode}
    return audit_step(note, now, target, project=row.project, before=before, after=new)
