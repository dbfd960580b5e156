"""Looks at all scaling policies, one page after the other, and does what they say. Each policy has
a task of its own: a provider that is slow or fails holds up no other."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

import msgspec

from taskforge.control.leader import Term
from taskforge.control.providers.factory import FleetOwner, load_provider
from taskforge.control.providers.provider import Provider, ProviderFailed
from taskforge.control.rounds import Rounds
from taskforge.control.scaler import Scaler
from taskforge.control.scaling_points import is_quiet
from taskforge.domain.errors import Stale, StoreUnavailable
from taskforge.domain.queue_scaling import (
    QueueScaling,
    ScalingEntry,
    ScalingNews,
    ScalingPoint,
)
from taskforge.domain.retry import RetryPolicy
from taskforge.domain.scaling_provider import Declaration
from taskforge.domain.term import Deposed
from taskforge.operations.scaling import path_of
from taskforge.operations.scaling_sight import Arrivals, ProjectSight, Rates, SeenQueue, Sights
from taskforge.ports.engine import Engine
from taskforge.services import end_tasks
from taskforge.storage.records.scaling import Look, ScalingRecords

logger = logging.getLogger("taskforge.scaling")
LOOK_SECONDS = 5.0
AT_ONCE = 200  # policies of a page
TASKS_AT_ONCE = 32
ACT_SECONDS = 60.0  # beyond what providers bound themselves
CLOSE_SECONDS = 0.5
PRUNE_SECONDS = 60.0
PRUNED_AT_ONCE = 1_000
FAILING = RetryPolicy(delay=5.0, most=300.0)
MakeProvider = Callable[[Declaration, FleetOwner], Provider]


class Autoscaler(Rounds):
    def __init__(
        self,
        engine: Engine,
        declared: Mapping[str, Declaration],
        make: MakeProvider,
        seconds: float = LOOK_SECONDS,
    ) -> None:
        super().__init__("autoscaler", self._round, seconds)
        self._engine = engine
        self._records = ScalingRecords(engine)
        self._declared = declared
        self._make = make
        self._providers: dict[int, tuple[str, Provider]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(TASKS_AT_ONCE)
        self._points: dict[int, ScalingPoint] = {}
        self._arrivals, self._rates = Arrivals(), Rates(engine)
        self._pruned_at = 0.0

    async def run(self, term: Term) -> None:
        try:
            await super().run(term)
        finally:
            await self.close()

    async def close(self) -> None:
        """What it looked at is left as it is; processes of this machine are told to stop."""
        tasks, providers = list(self._tasks.values()), list(self._providers.values())
        self._tasks, self._providers, self._points = {}, {}, {}
        self._arrivals = Arrivals()
        for task in tasks:
            task.cancel()
        try:
            for _, provider in providers:
                await self._close(provider)
        finally:
            await end_tasks(*tasks)

    async def _round(self, term: Term) -> bool:
        await self.look(term)
        return False

    async def look(self, term: Term) -> int:
        """At all policies once; how many they are. It waits for none of them."""
        after, numbers, queues = 0, set(), set()
        sights = Sights(self._engine)
        while True:
            page = await self._records.page(after, AT_ONCE)
            by_project: dict[int, list[QueueScaling]] = {}
            for scaling in page:
                numbers.add(scaling.number)
                queues.add(scaling.queue_id)
                if not scaling.is_paused and not self._is_busy(scaling.number):
                    by_project.setdefault(scaling.project, []).append(scaling)
            for project, sight in (await sights.of(by_project)).items():
                term.check()
                await self._look_at(sight, by_project[project], term)
            if len(page) < AT_ONCE:
                break
            after = page[-1].number
        for number in set(self._providers) - numbers:
            _, provider = self._providers.pop(number)
            await self._close(provider)
        self._points = {key: one for key, one in self._points.items() if key in numbers}
        self._arrivals.keep_only(queues)
        self._rates.keep_only(queues)
        await self._prune(term)
        return len(numbers)

    async def settle(self) -> None:
        """Until every look that has begun has ended."""
        await asyncio.gather(*self._tasks.values())

    def _is_busy(self, number: int) -> bool:
        task = self._tasks.get(number)
        return task is not None and not task.done()

    async def _look_at(self, sight: ProjectSight, policies: list[QueueScaling], term: Term) -> None:
        for scaling in policies:
            if scaling.state.retry_at is not None and scaling.state.retry_at > sight.now:
                continue
            seen = await sight.see(scaling, self._rates, self._arrivals)
            if seen is not None and not is_quiet(seen, sight.now, self._points.get(scaling.number)):
                task = asyncio.create_task(self._scale(seen, sight, term), name=scaling.queue)
                self._tasks[scaling.number] = task
                task.add_done_callback(partial(self._forget, scaling.number))

    def _forget(self, number: int, _: asyncio.Task[None]) -> None:
        if not self._is_busy(number):
            self._tasks.pop(number, None)

    async def _scale(self, seen: SeenQueue, sight: ProjectSight, term: Term) -> None:
        scaling = seen.scaling
        scaler = Scaler(self._engine, self._records, term)
        last = self._points.get(scaling.number)
        try:
            async with self._places, asyncio.timeout(ACT_SECONDS + self._patience(scaling)):
                if scaling.only_advises:
                    look = await scaler.advise(seen, sight.now, last)
                else:
                    provider = await self._provider_of(scaling)
                    look = await scaler.act(seen, provider, sight.now, last)
        except (Stale, StoreUnavailable):
            return  # the next look sees it as it is then
        except Deposed:
            return
        except ProviderFailed as error:
            await self._fail(seen, sight, term, str(error), error.retry_after)
            return
        except TimeoutError:
            await self._fail(seen, sight, term, "the provider did not answer in time", None)
            return
        except Exception as error:
            logger.exception("queue %s of project %d was not scaled", scaling.queue, sight.project)
            await self._fail(seen, sight, term, f"a fault of the platform: {error!r}", None)
            return
        if look is not None:
            self._note(look)

    def _note(self, look: Look) -> None:
        if look.point is not None:
            self._points[look.scaling.number] = look.point
        for entry in look.entries:
            level = logging.WARNING if entry.news is ScalingNews.MISSING else logging.INFO
            logger.log(
                level, "queue %s: %s %d: %s", entry.queue, entry.news, entry.count, entry.reason
            )

    async def _fail(
        self,
        seen: SeenQueue,
        sight: ProjectSight,
        term: Term,
        reason: str,
        retry_after: float | None,
    ) -> None:
        """It is told of once, and tried again after ever longer waits."""
        fresh = await self._records.find(seen.scaling.queue_id)
        if fresh is None or fresh.version != seen.scaling.version:
            return
        failures = fresh.state.failures + 1
        wait = max(retry_after or 0.0, FAILING.wait(failures, 0.5))
        state = msgspec.structs.replace(
            fresh.state,
            error=reason,
            failures=failures,
            retry_at=sight.now + timedelta(seconds=wait),
            looked_at=sight.now,
        )
        entries: tuple[ScalingEntry, ...] = ()
        if reason != fresh.state.error:
            entry = ScalingEntry(
                number=0,
                queue=fresh.queue,
                queue_id=fresh.queue_id,
                at=sight.now,
                news=ScalingNews.FAILED,
                count=0,
                desired=fresh.state.desired,
                reason=reason,
                term=term.number,
                figures=seen.figures,
            )
            entries = (entry,)
            logger.warning("queue %s is not scaled: %s", fresh.queue, reason)
        try:
            await self._records.save(
                Look(scaling=fresh, state=state, entries=entries, term=term.number)
            )
        except (Stale, StoreUnavailable, Deposed):
            return

    # --- Providers ---

    def _patience(self, scaling: QueueScaling) -> float:
        declaration = self._declared.get(scaling.provider)
        return 0.0 if declaration is None else 4 * declaration.timeout_seconds

    async def _provider_of(self, scaling: QueueScaling) -> Provider:
        name, known = self._providers.get(scaling.number, ("", None))
        if known is not None and name == scaling.provider:
            return known
        if known is not None:
            del self._providers[scaling.number]
            await self._close(known)
        path = await path_of(self._engine, scaling.project)
        declaration = self._declared.get(scaling.provider)
        if declaration is None:
            raise ProviderFailed(
                f"the settings of the node that leads declare no provider {scaling.provider!r}; "
                f"put it into scaling_providers there"
            )
        if not declaration.admits(path.organization, path.project, is_first=path.is_first):
            raise ProviderFailed(f"this project may not use provider {scaling.provider!r} any more")
        owner = FleetOwner(policy=scaling.id, queue=scaling.queue, project=str(path))
        await load_provider(declaration)
        made = self._make(declaration, owner)
        self._providers[scaling.number] = (scaling.provider, made)
        return made

    async def _close(self, provider: Provider) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await provider.close()
        except Exception:
            logger.debug("a provider was not closed in order", exc_info=True)

    async def _prune(self, term: Term) -> None:
        if time.monotonic() - self._pruned_at >= PRUNE_SECONDS:
            pruned = await self._records.prune(
                term.number, await self._engine.now(), PRUNED_AT_ONCE
            )
            if pruned < PRUNED_AT_ONCE:
                self._pruned_at = time.monotonic()
