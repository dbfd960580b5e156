"""taskforge simulate …"""

from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from cyclopts import App, Parameter

from taskforge.cli.store import STORE, Store
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import emit, table
from taskforge.domain.errors import Invalid
from taskforge.domain.scaling import ScalingPolicy, check_policy
from taskforge.domain.scaling_trace import ScalingTrace, check_trace, simulate

app = App(name="simulate", help="Try scaling policies on a trace, in virtual time.")
T = TypeVar("T")


@app.command
def scaling(
    *,
    trace: Annotated[Path, Parameter(help="A JSON file with the jobs that arrive.")],
    policy: Annotated[
        tuple[Path, ...], Parameter(help="A JSON file with a policy; several are compared.")
    ],
    store: Store = STORE,
) -> None:
    """Tell what each policy would have made of a trace: what its workers cost, how long jobs
    waited, how often it changed direction. No worker is started."""
    traced = check_trace(_read("--trace", trace, ScalingTrace))
    policies = [(path, check_policy(_read("--policy", path, ScalingPolicy))) for path in policy]
    found = [(path, simulate(one, traced)) for path, one in policies]
    if store.json:
        shapes = [{"policy": str(path), **msgspec.structs.asdict(one)} for path, one in found]
        emit({"outcomes": shapes})
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


def _read(option: str, path: Path, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except OSError as error:
        raise Invalid(option, f"cannot be read ({error.strerror}: {path})", "name a file") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Invalid(
            option, f"{path} does not fit ({error})", "see docs/guides/autoscaling.md"
        ) from None
