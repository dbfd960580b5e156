"""Autoscaling at work: `python -m tests.support.scaling_burst`. A burst of 5,000
jobs of 50 ms meets a policy of 0 to 6 workers: worker processes of this machine, started and
stopped by a leader in a process of its own. Then the same burst in virtual time. Both as a table;
`--picture FILE` draws them."""

import argparse
import asyncio
import itertools
import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from taskforge.cli.ui.scaling_picture import Curve, CurvePoint, write_picture
from taskforge.domain.queue_scaling import ScalingNews
from taskforge.domain.scaling_trace import ScalingTrace, TracedJobs, simulate
from tests.support.scaled_fleet import ScaledFleet


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How the burst went for real, and in virtual time."""

    jobs: int
    succeeded: int
    attempts: int
    worker_hours: float
    wait_p50_seconds: float
    wait_p95_seconds: float
    most_workers: int
    direction_changes: int
    done_seconds: float
    start_seconds: float
    job_seconds: float
    orphans: int
    places: list[CurvePoint]
    simulated: dict[str, Any]
    simulated_places: list[CurvePoint]


async def run_burst(
    folder: Path, jobs: int, most: int, look: float, patience: float = 300.0
) -> Run:
    async with ScaledFleet(folder, look=look) as fleet:
        policy = await fleet.scale(
            max_workers=most,
            target_queue_length=100,
            scale_up_cooldown_seconds=30,
            scale_down_cooldown_seconds=10,
            drain_seconds=30,
        )
        fleet.lead()
        await fleet.leading()
        engine = await fleet.forge.engine()
        await asyncio.sleep(look)
        began = await engine.now()
        await fleet.naps(jobs, 0.05)

        async def is_settled() -> bool:
            state = (await fleet.forge.scaling.get("mail")).state
            done = (await fleet.stats()).succeeded == jobs
            return done and not (state.draining or state.workers or state.coming)

        seen: dict[Any, Any] = {}

        async def is_over() -> bool:
            for worker in await fleet.forge.workers.all():
                seen[worker.id] = worker
            return await is_settled()

        await fleet.until(is_over, patience)
        ended = await engine.now()
        history = await fleet.history()
        series = await fleet.forge.scaling.series(
            "mail", since=began, until=ended + timedelta(seconds=2), points=1_000
        )
        attempts, cursor = 0, None
        while True:
            page = await fleet.forge.jobs.page(queue="mail", limit=1_000, cursor=cursor)
            attempts += sum(job.attempt_count for job in page.jobs)
            cursor = page.cursor
            if cursor is None:
                break
        totals = (await fleet.forge.metrics.read(queue="mail")).totals
        ups = [one for one in history if one.news is ScalingNews.SCALE_UP]
        comes = [
            (worker.registered_at - ups[0].at).total_seconds()
            for worker in seen.values()
            if worker.registered_at < ups[0].at + timedelta(seconds=60)
        ]
        start = sum(comes) / max(1, len(comes))
        places = [
            CurvePoint(
                max(0.0, (one.at - began).total_seconds()),
                one.desired,
                one.actual + one.draining,
                one.length,
            )
            for one in series
        ]
        seconds = (totals.duration_ms.avg or 50.0) / 1_000
        turns = [
            one.news
            for one in history
            if one.news in (ScalingNews.SCALE_UP, ScalingNews.SCALE_DOWN)
        ]
        hours = sum(
            (later.seconds - one.seconds) * one.workers for one, later in itertools.pairwise(places)
        )
        idle = next((one.seconds for one in places if not one.jobs and one.seconds > look), 0.0)
        trace = ScalingTrace(
            arrivals=(TracedJobs(at_seconds=0.0, jobs=jobs, job_seconds=seconds),),
            slots=1,
            start_seconds=max(0.0, start + (ups[0].at - began).total_seconds()),
            look_seconds=look,
        )
        outcome = simulate(policy.policy, trace)
        simulated = msgspec.structs.asdict(outcome)
        curve = simulated.pop("series")
        return Run(
            jobs=jobs,
            succeeded=(await fleet.stats()).succeeded,
            attempts=attempts,
            worker_hours=round(hours / 3_600, 4),
            wait_p50_seconds=round((totals.wait_ms.p50 or 0.0) / 1_000, 2),
            wait_p95_seconds=round((totals.wait_ms.p95 or 0.0) / 1_000, 2),
            most_workers=max(one.workers for one in places),
            direction_changes=sum(one is not other for one, other in itertools.pairwise(turns)),
            done_seconds=idle,
            start_seconds=round(start, 2),
            job_seconds=round(seconds, 4),
            orphans=len(fleet.workers()),
            places=places,
            simulated=simulated,
            simulated_places=[
                CurvePoint(one.at_seconds, one.desired, one.workers, one.length) for one in curve
            ],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--look", type=float, default=1.0)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = asyncio.run(run_burst(Path(folder), options.jobs, options.most, options.look))
    if options.picture is not None:
        curves = [Curve("real", run.places), Curve("simulated", run.simulated_places)]
        write_picture(options.picture, curves)
    table = Table("", "real", "simulated")
    for name in (
        "worker_hours",
        "wait_p50_seconds",
        "wait_p95_seconds",
        "most_workers",
        "direction_changes",
        "done_seconds",
    ):
        table.add_row(name, f"{getattr(run, name)}", f"{run.simulated[name]}")
    Console().print(table)
    figures = msgspec.structs.asdict(run)
    for name in ("places", "simulated", "simulated_places"):
        del figures[name]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
