"""Requests about queues, workers and the assignments between them."""

from collections.abc import Sequence
from typing import Any, assert_never
from uuid import UUID

import msgspec

from taskforge.client.json_shapes import AssignmentShape, QueueShape, StatsShape, WorkerShape
from taskforge.client.requests import Request, get, nothing, post, reader
from taskforge.domain.assignment import Assign, Assignment, Reassign, Unassign
from taskforge.domain.query import QueueStats, WorkerTotals
from taskforge.domain.queue import CreateQueue, DeleteQueue, Queue, UpdateQueue
from taskforge.domain.worker import RegisterWorker, Worker, WorkerChange


class _Stats(msgspec.Struct):
    items: list[StatsShape]


class _Totals(msgspec.Struct):
    id: UUID
    completed: int
    failed: int


_queue, _stats = reader(QueueShape), reader(_Stats)
_worker, _totals = reader(WorkerShape), reader(_Totals)
_assignment = reader(AssignmentShape)


# --- Queues ---


def get_queue(queue: UUID) -> Request[Queue]:
    return get(f"/queues/{queue}", _read_queue)


def stats(
    path: str = "/stats", queue_ids: Sequence[UUID] | None = None
) -> Request[list[QueueStats]]:
    def read(body: bytes) -> list[QueueStats]:
        return [one.to_domain() for one in _stats(body).items]

    return get(path, read, queue_id=None if queue_ids is None else list(queue_ids))


def change_queue(change: CreateQueue | UpdateQueue) -> Request[Queue]:
    match change:
        case CreateQueue():
            return post("/queues", _read_queue, change)
        case UpdateQueue():
            fields = _given(change, "name", "description", "priority", "is_active")
            if change.settings is not None:
                # The server merges settings with what is there; ours are all of them, so each is
                # named.
                fields["settings"] = msgspec.structs.asdict(change.settings)
            body, headers = msgspec.json.encode(fields), _meant(change.expected_version)
            return Request(
                "PATCH", f"/queues/{change.queue}", _read_queue, body=body, headers=headers
            )
        case _:
            assert_never(change)


def delete_queue(change: DeleteQueue) -> Request[None]:
    return Request(
        "DELETE", f"/queues/{change.queue}", nothing, headers=_meant(change.expected_version)
    )


def _read_queue(body: bytes) -> Queue:
    return _queue(body).to_domain()


# --- Workers ---


def worker_totals(worker: UUID) -> Request[WorkerTotals]:
    def read(body: bytes) -> WorkerTotals:
        found = _totals(body)
        return WorkerTotals(found.id, found.completed, found.failed)

    return get(f"/workers/{worker}/stats", read)


def change_worker(change: WorkerChange) -> list[Request[Worker]]:
    """One call for what it is, another for whether it drains; what is expected is expected of the
    first."""
    if isinstance(change, RegisterWorker):
        return [post("/workers", _read_worker, change, repeatable=True)]
    requests: list[Request[Worker]] = []
    headers = _meant(change.expected_mark)
    fields = _given(change, "name", "max_concurrent_jobs", "capabilities")
    if change.as_started:
        fields["max_concurrent_jobs"] = None
    if fields or change.drain_mode is None:
        body = msgspec.json.encode(fields)
        requests.append(
            Request("PATCH", f"/workers/{change.worker}", _read_worker, body=body, headers=headers)
        )
        headers = {}
    if change.drain_mode is not None:
        verb = "drain" if change.drain_mode else "undrain"
        requests.append(
            post(
                f"/workers/{change.worker}/{verb}",
                _read_worker,
                repeatable=not headers,
                headers=headers,
            )
        )
    return requests


def _read_worker(body: bytes) -> Worker:
    return _worker(body).to_domain()


# --- Assignments ---


def get_assignment(queue: UUID, worker: UUID) -> Request[Assignment]:
    return get(_pair(queue, worker), _read_assignment)


def change_assignment(change: Assign | Reassign) -> Request[Assignment]:
    method = "PUT" if isinstance(change, Assign) else "PATCH"
    body = msgspec.json.encode(_given(change, "weight", "is_active"))
    headers = {} if isinstance(change, Assign) else _meant(change.expected_mark)
    return Request(
        method, _pair(change.queue, change.worker), _read_assignment, body=body, headers=headers
    )


def delete_assignment(change: Unassign) -> Request[None]:
    return Request(
        "DELETE", _pair(change.queue, change.worker), nothing, headers=_meant(change.expected_mark)
    )


def _pair(queue: UUID, worker: UUID) -> str:
    return f"/queues/{queue}/assignments/{worker}"


def _read_assignment(body: bytes) -> Assignment:
    return _assignment(body).to_domain()


def _meant(expected: str | int | None) -> dict[str, str]:
    return {} if expected is None else {"If-Match": f'"{expected}"'}


def _given(change: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(change, name) for name in names if getattr(change, name) is not None}
