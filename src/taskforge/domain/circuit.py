"""Circuits: what a breaker guards, a job type of a queue or something that job types depend on, and
how each stands. `breaker.py` has the steps."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.breaker import Breaker, Mode
from taskforge.domain.errors import Invalid

DAY = 86_400.0
MOST_DEPENDENCIES = 20
"""Of one job type."""


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """As its owners see it. It has a queue and a job type, or a dependency."""

    number: int
    project: int
    queue_id: UUID | None
    queue: str | None
    job_type: str | None
    dependency: str | None
    job_types: tuple[str, ...]  # that depend on it
    mode: Mode
    is_forced: bool
    since: datetime | None  # in this mode; None: nothing has changed it yet
    due_at: datetime | None  # when probes go through, or others do
    succeeded: int  # within the window
    failed: int
    probes_asked: int
    probes_passed: int
    circuit_breaker: Breaker | None  # None: no thresholds, it opens by hand alone

    @property
    def label(self) -> str:
        if self.dependency is not None:
            return f"dependency {self.dependency}"
        return f"job type {self.job_type} of queue {self.queue}"


class CircuitName(msgspec.Struct, frozen=True):
    """Which circuit is meant: of a queue and a job type, or of a dependency."""

    queue: str | None = None
    job_type: str | None = None
    dependency: str | None = None


class HeldCircuit(msgspec.Struct, frozen=True):
    """A circuit that lets nothing through, or a few probes, as `explain` tells of it."""

    dependency: str | None  # None: of the job's own type in its queue
    mode: Mode
    room: int
    is_forced: bool
    due_at: datetime | None


def check_circuit_name(name: CircuitName) -> None:
    if name.dependency is not None:
        rules.text("dependency", name.dependency, most=100)
        for field in ("queue", "job_type"):
            if getattr(name, field) is not None:
                raise Invalid(
                    field, "is given together with dependency", "name one or the other circuit"
                )
        return
    for field in ("queue", "job_type"):
        if getattr(name, field) is None:
            raise Invalid(field, "is missing", "name queue and job_type, or a dependency")
    rules.text("job_type", name.job_type, most=100)


def parse_breaker(field: str, value: Any) -> Breaker:
    """Check every threshold; an unknown one names the nearest."""
    if isinstance(value, Breaker):
        value = msgspec.structs.asdict(value)
    if not isinstance(value, Mapping):
        raise Invalid(
            field, f"is {value!r}, not an object", 'use {} for the defaults, or {"least_calls": 20}'
        )
    for name in value:
        if name not in _CHECKS:
            raise rules.unknown(field, name, tuple(_CHECKS))
    return Breaker(
        **{
            name: _CHECKS[name](f"{field}.{name}", given)
            for name, given in value.items()
            if given is not None
        }
    )


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "failure_share": lambda field, value: rules.number(field, value, 0.01, 1),
    "least_calls": lambda field, value: rules.integer(field, value, 1, 1_000_000),
    "window_seconds": lambda field, value: rules.number(field, value, 0.1, DAY),
    "open_seconds": lambda field, value: rules.number(field, value, 0.1, DAY),
    "probes": lambda field, value: rules.integer(field, value, 1, 1_000),
}


def check_dependencies(
    depends_on: object, types: Collection[str] | None, most_types: int
) -> dict[str, tuple[str, ...]]:
    """What each of a worker's job types depends on."""
    if not isinstance(depends_on, Mapping):
        raise Invalid(
            "depends_on",
            f"is a {type(depends_on).__name__}",
            'use an object such as {"charge": ["stripe"]}',
        )
    if len(depends_on) > most_types:
        raise Invalid("depends_on", f"names {len(depends_on):,} types", f"at most {most_types:,}")
    checked = {}
    for job_type, names in depends_on.items():
        field = f"depends_on.{job_type}"
        rules.text(field, job_type, most=100)
        if types is not None and job_type not in types:
            raise Invalid(field, "is not among the worker's types", "name types that it runs")
        checked[job_type] = check_names(field, names)
    return checked


def check_names(field: str, names: object) -> tuple[str, ...]:
    """Those of dependencies."""
    if not isinstance(names, list | tuple | set | frozenset):
        raise Invalid(field, f"is {names!r}, not a list", 'use a list such as ["stripe"]')
    if len(names) > MOST_DEPENDENCIES:
        raise Invalid(field, f"names {len(names):,}", f"at most {MOST_DEPENDENCIES}")
    return tuple(sorted({rules.text(field, name, most=100) for name in names}))


def circuit_topic(mode: Mode) -> str:
    """What readers of events hear of a change."""
    return {
        Mode.OPEN: "circuit.opened",
        Mode.HALF_OPEN: "circuit.half_opened",
        Mode.CLOSED: "circuit.closed",
    }[mode]
