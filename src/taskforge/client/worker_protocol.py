"""Requests of the worker protocol. They are not sent again here: whoever works knows for how long
trying again makes sense."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from uuid import UUID

import msgspec

from taskforge.client.jobs import slices
from taskforge.client.requests import ANSWER_SECONDS, Request, nothing, reader
from taskforge.domain import worker_protocol
from taskforge.domain.custom_value import CustomSum
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import Outcome
from taskforge.domain.wire_outcome import wire_of
from taskforge.domain.worker import Earlier, NewWorker, Registered, Renewed, Sample

T = TypeVar("T")
_registered, _heartbeat = (
    reader(worker_protocol.WorkerRegistered),
    reader(worker_protocol.HeartbeatAnswer),
)
_claimed, _lost = reader(worker_protocol.ClaimAnswer), reader(worker_protocol.LostAnswer)


def register(worker: NewWorker, lease_seconds: float) -> Request[Registered]:
    def read(body: bytes) -> Registered:
        found = _registered(body)
        earlier = tuple(Earlier(one.incarnation, one.pid, one.pid_started) for one in found.earlier)
        return Registered(found.worker, found.incarnation, earlier)

    return _call("register", worker_protocol.register_body(worker, lease_seconds), read)


def heartbeat(incarnation: UUID, lease_seconds: float, sample: Sample) -> Request[Renewed]:
    body = worker_protocol.Heartbeat(
        incarnation=incarnation,
        cpu_percent=sample.cpu_percent,
        memory_bytes=sample.memory_bytes,
        healthy=sample.healthy,
        stopping=sample.stopping,
        stuck_slots=sample.stuck_slots,
        blocking=sample.blocking,
        lease_seconds=lease_seconds,
    )

    def read(answer: bytes) -> Renewed:
        found = _heartbeat(answer)
        return Renewed(found.drain, found.cancelled, found.slots, found.cancel_reasons)

    # A renewal that takes longer than the lease is none.
    return _call("heartbeat", body, read, seconds=max(1.0, lease_seconds / 3))


def claim(
    incarnation: UUID,
    limit: int,
    wait_seconds: float,
    held: Sequence[UUID] | None,
    reporting: int = 0,
) -> Request[list[Claimed]]:
    body = worker_protocol.ClaimBody(
        incarnation=incarnation,
        limit=limit,
        wait_seconds=wait_seconds,
        held=None if held is None else tuple(held),
        reporting=reporting,
    )

    def read(answer: bytes) -> list[Claimed]:
        return [worker_protocol.claimed(one) for one in _claimed(answer).jobs]

    return _call("claim", body, read, seconds=wait_seconds + ANSWER_SECONDS)


def complete(
    incarnation: UUID, ended: Sequence[tuple[UUID, Outcome, float | None]]
) -> Iterator[Request[list[UUID]]]:
    items = [
        msgspec.json.encode(
            worker_protocol.WireCompletion(
                execution=fence, outcome=wire_of(outcome), ran_seconds=ran
            )
        )
        for fence, outcome, ran in ended
    ]
    return _batches("complete", "outcomes", incarnation, items)


def progress(incarnation: UUID, beats: Sequence[Beat]) -> Iterator[Request[list[UUID]]]:
    return _batches(
        "progress",
        "beats",
        incarnation,
        [msgspec.json.encode(worker_protocol.wire_beat(one)) for one in beats],
    )


def logs(incarnation: UUID, lines: Sequence[NewLine]) -> Iterator[Request[list[UUID]]]:
    return _batches(
        "logs",
        "lines",
        incarnation,
        [msgspec.json.encode(worker_protocol.wire_line(one)) for one in lines],
    )


def count(incarnation: UUID, sums: Sequence[CustomSum]) -> Request[None]:
    body = worker_protocol.CountBody(incarnation=incarnation, values=tuple(sums))
    return _call("metrics", body, nothing)


def deregister(incarnation: UUID, *, died: bool = False) -> Request[None]:
    return _call(
        "deregister", worker_protocol.Deregister(incarnation=incarnation, died=died), nothing
    )


def _batches(
    verb: str, field: str, incarnation: UUID, items: Sequence[bytes]
) -> Iterator[Request[list[UUID]]]:
    for start, end in slices(items, worker_protocol.MOST_AT_ONCE):
        body = b'{"incarnation":"%s","%s":[%s]}' % (
            str(incarnation).encode(),
            field.encode(),
            b",".join(items[start:end]),
        )
        yield _call(verb, body, lambda answer: list(_lost(answer).lost))


def _call(
    verb: str, body: object, read: Callable[[bytes], T], seconds: float = ANSWER_SECONDS
) -> Request[T]:
    encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Request("POST", f"/worker/{verb}", read, body=encoded, repeats=0, seconds=seconds)
