"""What a worker tells a scraper, from real processes."""

import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from taskforge.telemetry.exposition import render
from taskforge.telemetry.worker_figures import MOST_TYPES, WorkerFigures
from tests.support.shell import Shell, until

APP = """
import os
from taskforge import TaskForge

forge = TaskForge(poll_seconds=0.1)

@forge.job()
async def sell() -> int:
    return os.getpid()

@forge.job()
async def lose() -> None:
    raise ValueError("gone")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    return Shell(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


def free_ports(count: int) -> int:
    """The first of so many in a row."""
    for first in range(21_000, 30_000, count):
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


def scrape(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def value_of(text: str, name: str, *labels: str) -> float:
    for line in text.splitlines():
        if re.match(rf"{name}[ {{]", line) and all(one in line for one in labels):
            return float(line.rpartition(" ")[2])
    return 0.0


def test_a_worker_tells_of_its_slots_outcomes_and_durations(shop: Shell) -> None:
    port = free_ports(1)
    words = ("worker", "shop:forge", "--name", "anna", "--metrics-port", str(port))
    with shop.started(*words) as worker:
        worker.until("with 10 slots")
        for _ in range(2):
            shop.json("enqueue", "sell", "--wait")
        shop.json("enqueue", "lose", "--max-attempts", "1", "--wait", status=1)
        text = scrape(port)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scrape(port, "/")
        assert "metrics_port" in shop.run(*words[:2], "--metrics-port", str(port), status=2).stderr
    assert value_of(text, "taskforge_worker_slots", 'worker="anna"') == 10
    assert value_of(text, "taskforge_worker_busy") == 0
    ended = "taskforge_worker_executions_total"
    assert value_of(text, ended, 'job_type="sell"', 'outcome="succeeded"') == 2
    assert value_of(text, ended, 'job_type="lose"', 'outcome="failed"') == 1
    took = "taskforge_worker_duration_seconds"
    assert value_of(text, f"{took}_bucket", 'job_type="sell"', 'le="+Inf"') == 2
    assert value_of(text, f"{took}_count", 'job_type="sell"') == 2
    assert "taskforge_worker_loop_lag_seconds" in text


def test_each_process_has_a_port_of_its_own(shop: Shell) -> None:
    port = free_ports(2)
    with shop.started(
        "worker", "shop:forge", "--processes", "2", "--metrics-port", str(port)
    ) as worker:
        until(lambda: worker.text.count("metrics on http://127.0.0.1:") == 2)
        names = {re.findall(r'slots\{worker="([^"]+)"', scrape(port + one))[0] for one in (0, 1)}
    assert len(names) == 2


def test_the_number_of_series_is_bounded() -> None:
    figures = WorkerFigures()
    for number in range(1_000):
        figures.count(f"type {number}", "succeeded", 0.1)
    text = render(figures.families("anna", 1, 0, 0))
    assert text.count("executions_total{") == MOST_TYPES + 1
    others = value_of(text, "taskforge_worker_executions_total", 'job_type="others"')
    assert others == 1_000 - MOST_TYPES
