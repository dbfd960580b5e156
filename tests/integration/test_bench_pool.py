"""The pool's benchmark still runs. It says nothing about speed: the sizes are too small for
that."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_measures_the_pool_beside_the_others(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [
        sys.executable,
        "-m",
        "bench.pool",
        "--quick",
        "--scale",
        "0.05",
        "--json",
        str(file),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(file.read_text())
    assert {
        "pool.submit",
        "pool.map, as completed",
        "pool.map, in order",
        "TaskGroup, all at once",
    } <= {row["what"] for row in told["rows"]}
    assert all(row["ours"] > 0 for row in told["rows"])
    assert "flat" in done.stdout
    assert [len(rows) for rows in told["tables"].values()] == [3]
