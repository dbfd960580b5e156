"""taskforge enqueue"""

import asyncio
import sys
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from taskforge.cli import shapes
from taskforge.cli.failure import JOB_FAILED, CommandError
from taskforge.cli.moments import instant, seconds
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, error_console, styled
from taskforge.cli.ui.terminal import emit, patience, status
from taskforge.domain.errors import Invalid
from taskforge.domain.job import Inserted, JobStatus, StoredJob, new_job
from taskforge.operations import jobs as operations
from taskforge.operations.naming import find_queue
from taskforge.ports.engine import AnyEngine
from taskforge.sdk.waiter import Waiter


async def enqueue(
    job_type: Annotated[str, Parameter(help="The job type, as the app's handlers name it.")],
    /,
    *,
    queue: Annotated[str, Parameter(help="Name or id.")] = "default",
    payload: Annotated[
        str,
        Parameter(
            help="The handler's arguments as a JSON object; - reads standard input.",
            allow_leading_hyphen=True,
        ),
    ] = "{}",
    priority: Annotated[int, Parameter(help="0 to 9; higher runs first.")] = 0,
    delay: Annotated[str | None, Parameter(help="How long from now: 90, 15m, 2h, 3d.")] = None,
    at: Annotated[
        str | None,
        Parameter(help="When: 2026-05-01T09:30, in this machine's zone unless it names one."),
    ] = None,
    unique: Annotated[
        str | None, Parameter(help="A key that no other unfinished job may have.")
    ] = None,
    fairness_key: Annotated[
        str | None, Parameter(help="Where the queue has `fairness`, its keys take turns.")
    ] = None,
    cost: Annotated[
        int | None,
        Parameter(help="How many units of its key's rate a start takes; 1 if not given."),
    ] = None,
    max_attempts: int | None = None,
    tag: Annotated[tuple[str, ...], Parameter(help="Repeatable.")] = (),
    wait: Annotated[
        bool, Parameter(help="Wait until it has ended; status 1 if it did not succeed.")
    ] = False,
    timeout: Annotated[str | None, Parameter(help="How long to wait at most.")] = None,
    store: Store = STORE,
) -> int:
    """Enqueue one job, and wait for it if asked to. The app is not needed: the payload is checked
    when its handler runs."""
    if at is not None and delay is not None:
        raise Invalid("--delay", "is given together with --at", "use one of them")
    when = (
        instant("--at", at)
        if at is not None
        else seconds("--delay", delay)
        if delay is not None
        else None
    )
    limit = None if timeout is None else seconds("--timeout", timeout)
    arguments = _payload(sys.stdin.read() if payload == "-" else payload)
    async with opened(store) as engine:
        name = (await find_queue(engine, queue)).name
        wanted = new_job(
            name,
            job_type,
            arguments,
            priority=priority,
            at=when,
            unique_key=unique,
            fairness_key=fairness_key,
            cost=cost,
            max_attempts=max_attempts,
            tags=tag,
        )
        inserted = await operations.enqueue(engine, engine.home, wanted)
        if not wait:
            _tell(inserted, store)
            return 0
        _tell(inserted, store, waiting=True)
        ended = await _wait(engine, inserted, limit)
    if store.json:
        emit({"id": inserted.job, "existed": inserted.existed, "job": shapes.job(ended)})
    else:
        _tell_end(ended)
    return 0 if ended.status is JobStatus.SUCCEEDED else JOB_FAILED


def _payload(text: str) -> Any:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(
            "--payload",
            f"is not JSON ({error})",
            """use an object such as '{"to": "a@example.org"}'""",
        ) from None
    if not isinstance(found, dict):
        raise Invalid(
            "--payload",
            f"is a {type(found).__name__}",
            """use an object such as '{"to": "a@example.org"}'""",
        )
    return found


async def _wait(engine: AnyEngine, inserted: Inserted, limit: float | None) -> StoredJob:
    waiter = Waiter(lambda jobs: engine.get([engine.home], jobs))
    try:
        async with patience(f"waiting for job {inserted.job}"), asyncio.timeout(limit):
            return await waiter.wait(inserted.job)
    except TimeoutError:
        raise CommandError(
            f"job {inserted.job} has not ended after {limit:g} s; it is still enqueued",
            f"see `taskforge jobs show {inserted.job}`",
        ) from None
    finally:
        await waiter.close()


def _tell(inserted: Inserted, store: Store, *, waiting: bool = False) -> None:
    if store.json and not waiting:
        emit({"id": inserted.job, "existed": inserted.existed})
        return
    note = "a job with this key is there already:" if inserted.existed else "enqueued"
    out = error_console(soft_wrap=True) if store.json else console()
    out.print(styled("[green]{note}[/] {job}", note=note, job=inserted.job))


def _tell_end(job: StoredJob) -> None:
    out = console()
    out.print(f"job {job.id}", status(job.status))
    if job.error is not None:
        out.print(f"{job.error.type}: {job.error.message}", style="red")
    elif job.result is not None:
        out.print(msgspec.json.format(bytes(job.result), indent=2).decode())
    elif job.reason:
        out.print(job.reason)
