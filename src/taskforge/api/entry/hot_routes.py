"""The routes that are answered without the framework: enqueueing, and what workers ask. They are
most of what a server does.

`routes/hot.py` describes them; where they are, whom they are for and how they answer is taken
from there."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.utils import normalize_path

from taskforge.api.entry import enqueue
from taskforge.api.entry.bodies import LARGE_BYTES, decoded, each, each_in_turn, within
from taskforge.api.entry.caller import Caller
from taskforge.api.entry.parameters import ParameterRule, declared
from taskforge.api.routes import PREFIX
from taskforge.api.routes import hot as described
from taskforge.domain import worker_protocol
from taskforge.domain.access import Permission
from taskforge.domain.custom_value import check_sum
from taskforge.domain.errors import Invalid
from taskforge.domain.wire_outcome import outcome_of
from taskforge.domain.worker import Sample, check_sample, check_worker
from taskforge.operations.work.worker_desk import Report

Act = Callable[[Caller, str | None, bytes, str | None], Awaitable[Any]]
"""Of caller, project, body, idempotency key."""


class Quick(msgspec.Struct, frozen=True):
    permission: Permission
    status: int
    act: Act
    parameters: Mapping[str, ParameterRule]
    waits: bool = False  # whether the caller may leave before the answer is there


async def _create_one(
    caller: Caller, project: str | None, body: bytes, key: str | None
) -> enqueue.JobCreated:
    return await enqueue.create_one(caller, project, enqueue.decode_one(body), key)


async def _create_many(
    caller: Caller, project: str | None, body: bytes, key: str | None
) -> enqueue.BulkAnswer:
    return await enqueue.create_many(caller, project, await enqueue.decode_many(body, key), key)


# --- The worker protocol ---

_register = msgspec.json.Decoder(worker_protocol.Register)
_heartbeat = msgspec.json.Decoder(worker_protocol.Heartbeat)
_claim = msgspec.json.Decoder(worker_protocol.ClaimBody)
_complete = msgspec.json.Decoder(worker_protocol.CompleteBody)
_beats = msgspec.json.Decoder(worker_protocol.BeatsBody)
_lines = msgspec.json.Decoder(worker_protocol.LinesBody)
_count = msgspec.json.Decoder(worker_protocol.CountBody)
_deregister = msgspec.json.Decoder(worker_protocol.Deregister)


async def register(
    caller: Caller, project: str | None, body: bytes, _key: str | None
) -> worker_protocol.WorkerRegistered:
    given: worker_protocol.Register = decoded(_register, body)
    worker = worker_protocol.new_worker(given)
    check_worker(worker)
    made = await caller.platform.desk.register(
        await caller.project(project), worker, given.lease_seconds
    )
    return worker_protocol.WorkerRegistered(
        worker=made.worker,
        incarnation=made.incarnation,
        lease_seconds=given.lease_seconds,
        heartbeat_seconds=caller.platform.settings.rhythm_of(given.lease_seconds),
        earlier=tuple(
            worker_protocol.WireEarlier(
                incarnation=one.incarnation, pid=one.pid, pid_started=one.pid_started
            )
            for one in made.earlier
        ),
    )


async def heartbeat(
    caller: Caller, _project: str | None, body: bytes, _key: str | None
) -> worker_protocol.HeartbeatAnswer:
    given: worker_protocol.Heartbeat = decoded(_heartbeat, body)
    sample = Sample(
        given.cpu_percent,
        given.memory_bytes,
        given.healthy,
        given.stopping,
        given.stuck_slots,
        given.blocking,
    )
    check_sample(sample)
    renewed = await caller.platform.desk.heartbeat(
        caller.principal, given.incarnation, given.lease_seconds, sample
    )
    return worker_protocol.HeartbeatAnswer(
        drain=renewed.drain,
        slots=renewed.slots,
        cancelled=renewed.cancelled,
        cancel_reasons=renewed.cancel_reasons,
    )


async def claim(
    caller: Caller, _project: str | None, body: bytes, _key: str | None
) -> worker_protocol.ClaimAnswer:
    given: worker_protocol.ClaimBody = decoded(_claim, body)
    jobs = await caller.platform.desk.claim(
        caller.principal,
        given.incarnation,
        given.limit,
        given.wait_seconds,
        given.held,
        given.reporting,
    )
    return worker_protocol.ClaimAnswer(jobs=tuple(map(worker_protocol.wire_job, jobs)))


async def complete(
    caller: Caller, _project: str | None, body: bytes, _key: str | None
) -> worker_protocol.LostAnswer:
    given: worker_protocol.CompleteBody = decoded(_complete, body)
    reports = (
        await each_in_turn("outcomes", given.outcomes, _report)
        if len(body) > LARGE_BYTES
        else each("outcomes", given.outcomes, _report)
    )
    return worker_protocol.LostAnswer(
        lost=tuple(
            await caller.platform.desk.complete(caller.principal, given.incarnation, reports)
        )
    )


def _report(given: worker_protocol.WireCompletion) -> Report:
    try:
        outcome = outcome_of(given.outcome)
    except Invalid as error:
        raise within("outcome", error) from None
    return Report(given.execution, outcome, worker_protocol.ran_of(given))


async def progress(
    caller: Caller, _project: str | None, body: bytes, _key: str | None
) -> worker_protocol.LostAnswer:
    given: worker_protocol.BeatsBody = decoded(_beats, body)
    beats = each("beats", given.beats, worker_protocol.beat_of)
    return worker_protocol.LostAnswer(
        lost=tuple(await caller.platform.desk.beat(caller.principal, given.incarnation, beats))
    )


async def logs(
    caller: Caller, _project: str | None, body: bytes, _key: str | None
) -> worker_protocol.LostAnswer:
    given: worker_protocol.LinesBody = decoded(_lines, body)
    lines = each("lines", given.lines, worker_protocol.line_of)
    return worker_protocol.LostAnswer(
        lost=tuple(await caller.platform.desk.log(caller.principal, given.incarnation, lines))
    )


async def count(caller: Caller, _project: str | None, body: bytes, _key: str | None) -> None:
    given: worker_protocol.CountBody = decoded(_count, body)
    sums = each("values", given.values, check_sum)
    await caller.platform.desk.count(caller.principal, given.incarnation, sums)


async def deregister(caller: Caller, _project: str | None, body: bytes, _key: str | None) -> None:
    given: worker_protocol.Deregister = decoded(_deregister, body)
    await caller.platform.desk.deregister(caller.principal, given.incarnation, died=given.died)


def _quick(handler: HTTPRouteHandler, act: Act, *, waits: bool = False) -> dict[str, Quick]:
    """Where a described route is, and what there is to know of it."""
    made = Quick(handler.opt["permission"], handler.status_code, act, declared(handler.fn), waits)
    return {PREFIX + path: made for path in handler.paths}


_ROUTES = {
    **_quick(described.create_job, _create_one),
    **_quick(described.create_jobs, _create_many),
    **_quick(described.worker_register, register),
    **_quick(described.worker_heartbeat, heartbeat),
    **_quick(described.worker_claim, claim, waits=True),
    **_quick(described.worker_complete, complete),
    **_quick(described.worker_progress, progress),
    **_quick(described.worker_logs, logs),
    **_quick(described.worker_metrics, count),
    **_quick(described.worker_deregister, deregister),
}
_OF_PROJECTS = {
    **_quick(described.create_job_in, _create_one),
    **_quick(described.create_jobs_in, _create_many),
}
_IN_PROJECT = re.compile(rf"({PREFIX}/projects/)([^/]+)(/jobs(?:/bulk)?)")


def template_of(path: str) -> str | None:
    """The described path of a hot route, without what varies in it."""
    if path in _ROUTES:
        return path
    matched = _IN_PROJECT.fullmatch(path)
    return None if matched is None else f"{matched[1]}{{project:str}}{matched[3]}"


def find(method: str, path: str) -> tuple[Quick, str | None] | None:
    """The hot route of a request, and the project that its path names."""
    if method != "POST":
        return None
    found = _ROUTES.get(path)
    if found is not None:
        return found, None
    matched = _IN_PROJECT.fullmatch(path)
    if matched is not None:
        return _OF_PROJECTS[f"{matched[1]}{{project:str}}{matched[3]}"], matched[2]
    # as the framework does, to which slashes too many make no difference
    normal = normalize_path(path)
    return None if normal == path else find(method, normal)
