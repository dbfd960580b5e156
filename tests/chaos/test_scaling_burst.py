"""A burst meets a policy of 0 to 6 workers, for real and in virtual time. The short forms of what
leaders and workers do there are in tests/control/test_local_processes.py."""

from pathlib import Path

import pytest

from tests.chaos.fleet import Figure
from tests.support.scaling_burst import run_burst

JOBS = 5_000


@pytest.mark.long
async def test_a_burst_goes_up_and_down_once_and_as_the_simulation_said(
    tmp_path: Path, figure: Figure
) -> None:
    run = await run_burst(tmp_path, JOBS, most=6, look=1.0)
    figure(
        f"burst of {JOBS:,} × 50 ms on 0–6 workers: wait p95 {run.wait_p95_seconds} s, simulated "
        f"{run.simulated['wait_p95_seconds']} s; {run.worker_hours} worker-hours; "
        f"{run.direction_changes} change of direction"
    )
    assert (run.succeeded, run.attempts, run.orphans) == (JOBS, JOBS, 0)
    assert run.direction_changes <= 1
    assert 1 <= run.most_workers <= 6
    assert run.simulated["wait_p95_seconds"] == pytest.approx(run.wait_p95_seconds, rel=0.25)
