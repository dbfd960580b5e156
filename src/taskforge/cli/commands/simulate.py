"""taskforge simulate …"""

from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from cyclopts import App, Parameter

from taskforge.cli import moments
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.scaling_picture import Curve, CurvePoint, write_picture
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import emit, table
from taskforge.domain.errors import Invalid
from taskforge.domain.metrics import Period, Subject
from taskforge.domain.scaling import ScalingPolicy, check_policy
from taskforge.domain.scaling_trace import (
    ScalingOutcome,
    ScalingTrace,
    TracedPoint,
    check_trace,
    simulate,
)
from taskforge.operations.assignments import rank_workers
from taskforge.operations.naming import find_queue
from taskforge.operations.scaling import traced
from taskforge.wiring import metrics_of

app = App(name="simulate", help="Try scaling policies on a trace, in virtual time.")
T = TypeVar("T")


@app.command
def scaling(
    *,
    trace: Annotated[Path, Parameter(help="A JSON file with the jobs that arrive.")],
    policy: Annotated[
        tuple[Path, ...], Parameter(help="A JSON file with a policy; several are compared.")
    ],
    picture: Annotated[
        Path | None, Parameter(help="Also draw workers and queue over time into this SVG file.")
    ] = None,
    store: Store = STORE,
) -> None:
    """Tell what each policy would have made of a trace: what its workers cost, how long jobs
    waited, how often it changed direction. No worker is started."""
    traced = check_trace(_read("--trace", trace, ScalingTrace))
    policies = [(path, check_policy(_read("--policy", path, ScalingPolicy))) for path in policy]
    found = [(path, simulate(one, traced)) for path, one in policies]
    if picture is not None:
        curves = [Curve(path.stem, [_place(one) for one in each.series]) for path, each in found]
        write_picture(picture, curves)
    if store.json:
        emit({"outcomes": [_shape(path, one) for path, one in found]})
        return
    rows = table(
        *("policy", "worker-hours", "wait p50 s", "wait p95 s", "most workers", "turns", "done s"),
        flexible=("policy",),
    )
    for path, one in found:
        done = f"{one.done_seconds:,.1f}" if one.has_finished else "never"
        rows.add_row(
            path.stem,
            f"{one.worker_hours:,.3f}",
            f"{one.wait_p50_seconds:,.2f}",
            f"{one.wait_p95_seconds:,.2f}",
            f"{one.most_workers:,}",
            f"{one.direction_changes:,}",
            done,
        )
    console().print(rows)


@app.command
async def record(
    queue: Annotated[str, Parameter(help="A queue's name or id.")],
    /,
    *,
    last: Annotated[str, Parameter(help="How far back, such as 2h; at most 2 days.")] = "1h",
    store: Store = STORE,
) -> None:
    """Print what came into a queue lately as a trace, in JSON: how many jobs in each minute, and
    how long they ran."""
    seconds = moments.seconds("--last", last)
    async with opened(store) as engine:
        meant = await find_queue(engine, queue)
        period = Period(last_seconds=seconds, step_seconds=60)
        source = metrics_of(engine)
        found = await source.metrics(Subject(queue=meant.id), period)
        loads = await rank_workers(engine, meant)
    slots = [load.worker.max_concurrent_jobs for load in loads]
    emit(traced(found, round(sum(slots) / len(slots)) if slots else 1))


def _place(point: TracedPoint) -> CurvePoint:
    return CurvePoint(point.at_seconds, point.desired, point.workers, point.length)


def _shape(path: Path, outcome: ScalingOutcome) -> dict[str, Any]:
    """Without the series, which the picture shows."""
    values = msgspec.structs.asdict(outcome)
    del values["series"]
    return {"policy": str(path), **values}


def _read(option: str, path: Path, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except OSError as error:
        raise Invalid(option, f"cannot be read ({error.strerror}: {path})", "name a file") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Invalid(
            option, f"{path} does not fit ({error})", "see docs/guides/autoscaling.md"
        ) from None
