"""Circuits, as callers see them."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.breaker import Breaker
from taskforge.domain.circuit import Circuit


class CircuitView(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    queue: str | None
    queue_id: UUID | None
    job_type: str | None
    dependency: str | None
    job_types: list[str]
    mode: str
    is_forced: bool
    since: Time | None
    due_at: Time | None
    succeeded: int
    failed: int
    probes_asked: int
    probes_passed: int
    circuit_breaker: Breaker | None


def circuit_view(circuit: Circuit, names: Mapping[int, str]) -> CircuitView:
    shared = [
        name
        for name in CircuitView.__struct_fields__
        if name not in ("project", "mode", "job_types")
    ]
    return CircuitView(
        project=names.get(circuit.project, ""),
        mode=circuit.mode.value,
        job_types=list(circuit.job_types),
        **{name: getattr(circuit, name) for name in shared},
    )
