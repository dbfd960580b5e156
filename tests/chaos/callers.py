"""Callers that enqueue through every outage, as an application would."""

import asyncio
import time
from collections import Counter
from uuid import UUID

import httpx2
import msgspec

from taskforge import StoreUnavailable, TaskForge
from taskforge.sdk.jobs import JobFunction
from tests.chaos.fleet import Fleet

CALLERS = 3
DURATIONS = (0.01, 0.03, 0.1, 0.01, 0.02, 0.5)


class Callers:
    """Whoever enqueues, and goes on through every refusal, as an application would; and what they
    were told."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.told: Counter[str] = Counter()
        self.surprises: list[str] = []
        self.last_refused = 0.0
        self._forge = fleet.forge
        if fleet.served:
            # The server alone, on which this process would else have a look of its own.
            settings = msgspec.structs.replace(
                fleet.forge.settings, url=f"http://{fleet.served}", token=fleet._token
            )
            self._forge = TaskForge(settings=settings)

    async def enqueue(self, per_second: float) -> None:
        """Of ten jobs at a time; what was acknowledged is remembered."""
        handler = self._fleet.forge.registry.get("work")
        assert handler is not None
        work = JobFunction(self._forge, handler)
        number = 0
        while True:
            calls = [(DURATIONS[(number + index) % len(DURATIONS)],) for index in range(10)]
            number += 10
            try:
                handles = await work.enqueue_many(calls)
            except StoreUnavailable:
                self._refused("StoreUnavailable")
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                self.surprises.append(f"{type(error).__module__}.{type(error).__name__}: {error}")
            else:
                self.told["served"] += 1
                self._fleet.acknowledged |= {handle.id for handle in handles}
            await asyncio.sleep(10 / per_second)

    async def post(self) -> None:
        """Plain requests: what a server says while its store refuses."""
        headers = {"authorization": f"Bearer {self._fleet._token}"}
        body = {"queue": "default", "job_type": "work", "payload": {"seconds": 0.01}}
        async with httpx2.AsyncClient(
            base_url=f"http://{self._fleet.served}/api/v1", headers=headers, timeout=30
        ) as client:
            while True:
                try:
                    answer = await client.post("/jobs", json=body)
                except httpx2.HTTPError as error:
                    self.surprises.append(f"POST: {error!r}")
                else:
                    if answer.status_code == 201:
                        self._fleet.acknowledged.add(UUID(answer.json()["id"]))
                        self.told["201"] += 1
                    elif (
                        answer.status_code == 503
                        and answer.headers.get("retry-after", "").isdigit()
                    ):
                        self._refused("503 with Retry-After")
                    else:
                        self.surprises.append(f"POST: {answer.status_code} {answer.text[:200]}")
                await asyncio.sleep(0.1)

    def _refused(self, what: str) -> None:
        self.told[what] += 1
        self.last_refused = time.monotonic()

    async def were_refused(self) -> None:
        """Until somebody was, from now on."""
        since = time.monotonic()
        async with asyncio.timeout(20):
            while self.last_refused < since:
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        if self._forge is not self._fleet.forge:
            await self._forge.close()
