"""Leaders in processes of their own that scale a queue with worker processes of this machine, and
what can be seen of them."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import psutil

from taskforge import TaskForge
from taskforge.domain.query import QueueStats
from taskforge.domain.queue_scaling import QueueScaling, ScalingEntry
from taskforge.storage.records.cluster import ClusterRecords

ROOT = Path(__file__).parents[2]


class ScaledFleet:
    def __init__(
        self,
        folder: Path,
        *,
        look: float = 0.3,
        slots: int = 1,
        leader_seconds: float = 2.0,
        **store: str,
    ) -> None:
        """`store` says where the jobs are, if not in a file of the folder: url, schema."""
        near = {"kind": "local", "app": "tests.support.scaled_app:forge", "projects": ["default"]}
        values: dict[str, Any] = {
            "url": f"sqlite:///{folder}/jobs.db",
            "leader_seconds": leader_seconds,
            "durable": False,
            "poll_seconds": 0.2,
            "scaling_providers": {"near": {**near, "slots": slots}},
            **store,
        }
        self.forge = TaskForge(**values)
        self.forge.queue("mail", max_retries=3)
        self._flags = {
            f"TASKFORGE_{name.upper()}": json.dumps(value)
            if isinstance(value, dict)
            else str(value)
            for name, value in values.items()
        }
        self._look = look
        self._log = (folder / "fleet.log").open("ab")
        self.log = folder / "fleet.log"
        self.leaders: list[subprocess.Popen[bytes]] = []
        self.policy: UUID | None = None

    async def __aenter__(self) -> Self:
        await self.forge.__aenter__()
        await self.forge.engine()
        return self

    async def __aexit__(self, *_: object) -> None:
        for leader in self.leaders:
            with contextlib.suppress(ProcessLookupError):
                leader.kill()
            leader.wait()
        with contextlib.suppress(TimeoutError):
            await self.until(lambda: not self.workers(), 30)
        for worker in self.workers():
            worker.kill()
        await self.forge.__aexit__(None, None, None)
        self._log.close()

    async def scale(self, **fields: Any) -> QueueScaling:
        usual: dict[str, Any] = {
            "provider": "near",
            "target_queue_length": 50,
            "scale_down_cooldown_seconds": 1,
        }
        made = await self.forge.scaling.put("mail", **(usual | fields))
        self.policy = made.id
        return made

    def lead(self) -> subprocess.Popen[bytes]:
        leader = subprocess.Popen(
            [sys.executable, "-m", "tests.support.scaling_leader", str(self._look)],
            cwd=ROOT,
            env=os.environ | self._flags,
            stdout=self._log,
            stderr=self._log,
        )
        self.leaders.append(leader)
        return leader

    async def leading(self) -> subprocess.Popen[bytes]:
        engine: Any = await self.forge.engine()
        while True:
            leadership = await ClusterRecords(engine).leadership()
            nodes = {node.id: node.pid for node in await ClusterRecords(engine).nodes()}
            for leader in self.leaders:
                if leader.poll() is None and leader.pid in {
                    pid for node, pid in nodes.items() if node == leadership.node
                }:
                    return leader
            await asyncio.sleep(0.05)

    async def naps(self, count: int, seconds: float) -> None:
        from tests.support.scaled_app import nap

        await self.forge.enqueue_many([nap.build(seconds) for _ in range(count)])

    def workers(self) -> list[psutil.Process]:
        """Processes of this machine that were started for the policy, wherever they hang now."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = process.cmdline()
                if "worker" not in line or "tests.support.scaled_app:forge" not in line:
                    continue
                if process.environ().get("TASKFORGE_SCALED_BY") == str(self.policy):
                    found.append(process)
        return found

    async def stats(self) -> QueueStats:
        return await self.forge.queues.stats("mail")

    async def news(self) -> list[str]:
        """The oldest first."""
        return [f"{one.news} {one.count}" for one in await self.history()]

    async def history(self) -> list[ScalingEntry]:
        return list(reversed(await self.forge.scaling.history("mail", limit=1_000)))

    async def until(self, holds: Callable[[], Any], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while True:
            answer = holds()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            if time.monotonic() > end:
                told = self.log.read_text()[-3_000:]
                raise TimeoutError(f"not within {seconds:g} s; {await self.news()}\n{told}")
            await asyncio.sleep(0.1)

    @staticmethod
    def kill(leader: subprocess.Popen[bytes]) -> None:
        leader.send_signal(signal.SIGKILL)
        leader.wait()
