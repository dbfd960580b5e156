"""One look of the leader at one scaling policy: what came of what was asked, what the policy says
now, and doing it.

What is to be done is written with the term before it is done, and acknowledged behind it. A leader
that ends in between leaves a wish that the next one repeats: a provider adds nothing when it has
been told as much already, and stops no worker twice."""

import contextlib
from datetime import datetime, timedelta

import msgspec

from taskforge.control.drainer import Drainer
from taskforge.control.leader import Term
from taskforge.control.providers.provider import Fleet, Provider, ProviderFailed
from taskforge.control.scaling_points import entry_of, is_news, point_of, state_told
from taskforge.domain.assignment import Assign
from taskforge.domain.errors import Conflict
from taskforge.domain.queue_scaling import (
    AskedFor,
    Drained,
    ScalingEntry,
    ScalingNews,
    ScalingPoint,
    ScalingState,
)
from taskforge.domain.scaling import ScalingAction, ScalingAdvice, evaluate
from taskforge.domain.worker import WorkerStatus
from taskforge.operations.scaling_sight import SeenQueue, fill_wishes, still_asked
from taskforge.ports.engine import Engine
from taskforge.storage.records.scaling import Look, ScalingRecords

FORGET_WISH_SECONDS = 3_600.0


class Scaler:
    """Of one look."""

    def __init__(self, engine: Engine, records: ScalingRecords, term: Term) -> None:
        self._engine = engine
        self._records = records
        self._term = term
        self._drainer = Drainer(engine, term)

    async def advise(
        self, seen: SeenQueue, now: datetime, last: ScalingPoint | None
    ) -> Look | None:
        """Of a policy that only advises: what it would do is said once. None where there is no
        news."""
        scaling = seen.scaling
        advice = evaluate(scaling.policy, seen.figures, now)
        state = state_told(scaling.state, seen, advice, now)
        before = scaling.state
        entries: tuple[ScalingEntry, ...] = ()
        has_changed = (advice.action, advice.desired) != (before.action, before.desired)
        if has_changed and advice.action is not ScalingAction.HOLD:
            would = advice.action is ScalingAction.UP
            news = ScalingNews.WOULD_SCALE_UP if would else ScalingNews.WOULD_SCALE_DOWN
            entries = (self._entry(seen, news, advice.count, advice, advice.reason, now),)
        return await self._save(seen, state, entries, now, last)

    async def act(
        self, seen: SeenQueue, provider: Provider, now: datetime, last: ScalingPoint | None
    ) -> Look | None:
        """What is raised is the provider's failure, or `Stale`: somebody changed the policy
        meanwhile, and it is looked at again soon. None where there is no news."""
        state = seen.scaling.state
        fleet: Fleet | None = None
        if any(not wish.is_acknowledged for wish in state.asked):
            seen, state = await self._repeat_wishes(seen, provider)
        if fill_wishes(state.asked, seen.started):
            fleet = await provider.current()
        state, entries = self._settle(seen, state, fleet, now)
        figures = msgspec.structs.replace(
            seen.figures, asked=still_asked(state.asked, seen.started)
        )
        seen = msgspec.structs.replace(seen, figures=figures)
        if await self._assign(seen):
            return await self._save(seen, state, entries, now, last)
        if state.draining:
            state, ended = await self._drainer.end(seen, state, provider, now)
            entries += ended
        advice = evaluate(seen.scaling.policy, figures, now)
        state = state_told(state, seen, advice, now)
        if advice.action is ScalingAction.UP:
            fleet = await provider.current()
            return await self._go_up(seen, state, entries, advice, provider, fleet, now, last)
        if advice.action is ScalingAction.DOWN:
            return await self._go_down(seen, state, entries, advice, now, last)
        return await self._save(seen, state, entries, now, last)

    # --- What was asked for ---

    async def _repeat_wishes(
        self, seen: SeenQueue, provider: Provider
    ) -> tuple[SeenQueue, ScalingState]:
        """The last leader, or a provider that failed, left them."""
        state = seen.scaling.state
        for wish in state.asked:
            if not wish.is_acknowledged:
                self._term.check()
                # what it cannot do is given up below, and asked for anew if it is wanted still
                with contextlib.suppress(ProviderFailed):
                    await provider.scale_up(wish.count, above=wish.above)
        asked = tuple(msgspec.structs.replace(one, is_acknowledged=True) for one in state.asked)
        state = msgspec.structs.replace(state, asked=asked)
        return await self._keep(seen, state), state

    def _settle(
        self, seen: SeenQueue, state: ScalingState, fleet: Fleet | None, now: datetime
    ) -> tuple[ScalingState, tuple[ScalingEntry, ...]]:
        """Wishes that are fulfilled are forgotten, those that are late are told of once, and those
        that the provider does not know of are given up: its machine is gone."""
        asked = list(state.asked)
        if not fill_wishes(asked, seen.started):
            return msgspec.structs.replace(state, asked=()), ()
        if fleet is not None:
            alive = sum(one.status is not WorkerStatus.OFFLINE for one in seen.started)
            room = max(0, fleet.wanted - alive)
            open_ones = {one.at: one.count for one in fill_wishes(asked, seen.started)}
            for place, wish in reversed(list(enumerate(asked))):
                lost = max(0, open_ones.get(wish.at, 0) - room)
                room = max(0, room - open_ones.get(wish.at, 0))
                asked[place] = msgspec.structs.replace(wish, given_up=wish.given_up + lost)
        entries: list[ScalingEntry] = []
        late = now - timedelta(seconds=seen.scaling.policy.missing_after_seconds)
        counts = {one.at: one.count for one in fill_wishes(asked, seen.started)}
        for place, wish in enumerate(asked):
            count = counts.get(wish.at, 0)
            if count and wish.at <= late and not wish.is_told_missing:
                reason = f"{count:,} of {wish.count:,} workers that were asked for have not come"
                entries.append(self._entry(seen, ScalingNews.MISSING, count, None, reason, now))
                asked[place] = msgspec.structs.replace(wish, is_told_missing=True)
        old = now - timedelta(
            seconds=max(FORGET_WISH_SECONDS, 2 * seen.scaling.policy.missing_after_seconds)
        )
        kept = tuple(wish for wish in asked if wish.at > old)
        return msgspec.structs.replace(state, asked=kept), tuple(entries)

    async def _assign(self, seen: SeenQueue) -> bool:
        for worker in seen.unassigned:
            with contextlib.suppress(Conflict):
                change = Assign(seen.queue.id, worker.id)
                await self._engine.change_assignment(seen.queue.project, change)
        return bool(seen.unassigned)

    # --- More workers ---

    async def _go_up(
        self,
        seen: SeenQueue,
        state: ScalingState,
        entries: tuple[ScalingEntry, ...],
        advice: ScalingAdvice,
        provider: Provider,
        fleet: Fleet,
        now: datetime,
        last: ScalingPoint | None,
    ) -> Look | None:
        most = seen.scaling.policy.at(now).max_workers + len(state.draining)
        count = min(advice.count, max(0, most - fleet.wanted))
        if count == 0:
            reason = f"the provider has been told to have {fleet.wanted:,} workers already"
            state = msgspec.structs.replace(
                state, action=ScalingAction.HOLD, count=0, reason=reason
            )
            return await self._save(seen, state, entries, now, last)
        wish = AskedFor(count=count, at=now, above=fleet.wanted, term=self._term.number)
        state = msgspec.structs.replace(
            state, asked=(*state.asked, wish), last_up=now, count=count, coming=state.coming + count
        )
        entry = self._entry(seen, ScalingNews.SCALE_UP, count, advice, advice.reason, now)
        # while it fails it is told of once, and again when it did it
        now_or_then = ((*entries, entry), ()) if state.error is None else (entries, (entry,))
        look = await self._save(seen, state, now_or_then[0], now, last, is_done=False)
        seen, state = _as_saved(seen, look)
        self._term.check()
        await provider.scale_up(count, above=fleet.wanted)
        asked = tuple(msgspec.structs.replace(one, is_acknowledged=True) for one in state.asked)
        await self._keep(seen, _well(msgspec.structs.replace(state, asked=asked)), now_or_then[1])
        return look

    # --- Fewer ---

    async def _go_down(
        self,
        seen: SeenQueue,
        state: ScalingState,
        entries: tuple[ScalingEntry, ...],
        advice: ScalingAdvice,
        now: datetime,
        last: ScalingPoint | None,
    ) -> Look | None:
        """The least loaded drain, of those that are the policy's to stop."""
        own = {one.id for one in seen.own}
        free = [one for one in seen.serving if one.id in own]
        free.sort(key=lambda one: (one.active_jobs / one.max_concurrent_jobs, one.name))
        chosen = free[: advice.count]
        if not chosen:
            reason = f"{advice.reason}; none of those there is this policy's to stop"
            state = msgspec.structs.replace(
                state, action=ScalingAction.HOLD, count=0, reason=reason
            )
            return await self._save(seen, state, entries, now, last)
        drained = tuple(Drained(worker=one.id, name=one.name, since=now) for one in chosen)
        state = msgspec.structs.replace(
            state, draining=(*state.draining, *drained), last_down=now, count=len(chosen)
        )
        count = len(chosen)
        entry = self._entry(seen, ScalingNews.SCALE_DOWN, count, advice, advice.reason, now)
        look = await self._save(seen, state, (*entries, entry), now, last)
        seen, state = _as_saved(seen, look)
        told_at = [await self._drainer.begin(seen, one) for one in drained][-1]
        fresh = {one.worker for one in drained}
        told = tuple(
            msgspec.structs.replace(one, told_at=told_at) if one.worker in fresh else one
            for one in state.draining
        )
        await self._keep(seen, msgspec.structs.replace(state, draining=told))
        return look

    # --- Writing ---

    def _entry(
        self,
        seen: SeenQueue,
        news: ScalingNews,
        count: int,
        advice: ScalingAdvice | None,
        reason: str,
        now: datetime,
    ) -> ScalingEntry:
        return entry_of(seen, news, count, advice, reason, now, self._term.number)

    async def _keep(
        self, seen: SeenQueue, state: ScalingState, entries: tuple[ScalingEntry, ...] = ()
    ) -> SeenQueue:
        look = Look(scaling=seen.scaling, state=state, entries=entries, term=self._term.number)
        saved = await self._records.save(look)
        return msgspec.structs.replace(seen, scaling=saved)

    async def _save(
        self,
        seen: SeenQueue,
        state: ScalingState,
        entries: tuple[ScalingEntry, ...],
        now: datetime,
        last: ScalingPoint | None,
        *,
        is_done: bool = True,
    ) -> Look | None:
        """What is news; None where there is none. `is_done`: the provider did all it was asked."""
        if is_done:
            state = _well(state)
        fresh = point_of(seen, state, now)
        point = fresh if is_news(fresh, last) else None
        before = msgspec.structs.replace(seen.scaling.state, looked_at=state.looked_at)
        before = msgspec.structs.replace(before, reason=state.reason, workers=state.workers)
        if not entries and point is None and before == state:
            return None
        look = Look(
            scaling=seen.scaling, state=state, entries=entries, point=point, term=self._term.number
        )
        saved = await self._records.save(look)
        return msgspec.structs.replace(look, scaling=saved)


def _as_saved(seen: SeenQueue, look: Look | None) -> tuple[SeenQueue, ScalingState]:
    if look is None:
        return seen, seen.scaling.state
    return msgspec.structs.replace(seen, scaling=look.scaling), look.scaling.state


def _well(state: ScalingState) -> ScalingState:
    """But for workers that it would not stop."""
    error = next((one.error for one in state.draining if one.error is not None), None)
    return msgspec.structs.replace(state, error=error, failures=0, retry_at=None)
