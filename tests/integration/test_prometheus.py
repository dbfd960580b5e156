"""A real Prometheus reads what a server and a worker tell, as docs/monitoring says it."""

import json
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_worker_metrics import free_ports
from tests.support.shell import Shell, until

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"
APP = """
from taskforge import Context, TaskForge

forge = TaskForge(poll_seconds=0.1)

@forge.job(queue="sales")
async def sell(ctx: Context) -> None:
    ctx.update_metrics("coins", 3)
"""


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_a_real_prometheus_scrapes_server_and_worker(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    shop = Shell(tmp_path, f"sqlite:///{tmp_path}/jobs.db")
    served, working, asked = (free_ports(3) + number for number in range(3))
    words = ("worker", "shop:forge", "--metrics-port", str(working))
    with (
        shop.started("server", "--port", str(served), "--json") as server,
        shop.started(*words) as worker,
    ):
        server.until("api_key")
        told = json.loads(next(line for line in server.text.splitlines() if "api_key" in line))
        configure(tmp_path, told["api_key"], {"8000": served, "9100": working})
        worker.until("metrics on")
        shop.json("enqueue", "sell", "--queue", "sales", "--wait")
        with prometheus(tmp_path, asked):
            until(lambda: up(asked) == {"taskforge", "taskforge-workers"})
            [jobs] = query(asked, 'taskforge_jobs{queue="sales",status="pending"}')
            [ran] = query(asked, 'taskforge_worker_executions_total{job_type="sell"}')
            [coins] = query(asked, 'taskforge_worker_custom_sum{name="coins"}')
            rules = ask(asked, "rules")["groups"]
    assert jobs["metric"]["project"] == "default"
    assert (jobs["value"][1], ran["value"][1], coins["value"][1]) == ("0", "1", "3")
    assert sum(len(group["rules"]) for group in rules) == (
        (MONITORING / "alerts.yml").read_text().count("- alert:")
    )


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[None]:
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        (folder / "prometheus.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)


def configure(folder: Path, key: str, ports: dict[str, int]) -> None:
    """As the file of the documents says it, with ports of this test, and sooner."""
    text = (MONITORING / "prometheus.yml").read_text()
    for documented, port in ports.items():
        assert text.count(f"127.0.0.1:{documented}") == 1
        text = text.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{port}")
    (folder / "prometheus.yml").write_text(
        re.sub("scrape_interval: .*", "scrape_interval: 1s", text)
    )
    (folder / "taskforge.key").write_text(key)
    shutil.copy(MONITORING / "alerts.yml", folder)


def up(port: int) -> set[str]:
    """The jobs whose targets were scraped."""
    try:
        found = ask(port, "targets")["activeTargets"]
    except urllib.error.URLError:
        return set()
    return {target["labels"]["job"] for target in found if target["health"] == "up"}


def query(port: int, expression: str) -> list[dict[str, Any]]:
    asked = urllib.parse.urlencode({"query": expression})
    found: list[dict[str, Any]] = ask(port, f"query?{asked}")["result"]
    return found


def ask(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=5) as answer:
        return json.load(answer)["data"]
