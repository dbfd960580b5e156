"""Writes what came of running jobs. Every statement is fenced; what was lost is reported."""

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.failure_kind import kind_of
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.ids import epoch_of, uuid_from_int
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import (
    Finish,
    Lost,
    ToCancelled,
    ToDeadLetter,
    ToFailed,
    ToHandBack,
    ToMisfit,
    ToRetry,
    ToSkipped,
    ToSnoozed,
    ToSucceeded,
    Transition,
    is_ending,
)
from taskforge.storage.catalog import spot_of
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.circuits import PostgresCircuits
from taskforge.storage.postgres.claims import PostgresClaims
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.signals import Signals

# The code of a final job status is that of the execution which ended it.
_ENDED: dict[type, int] = {
    ToSucceeded: codec.JOB_CODE[JobStatus.SUCCEEDED],
    ToFailed: codec.JOB_CODE[JobStatus.FAILED],
    ToCancelled: codec.JOB_CODE[JobStatus.CANCELLED],
}
_RETRIED = codec.EXECUTION_CODE[ExecutionStatus.RETRY_SCHEDULED]
_RELEASED = codec.EXECUTION_CODE[ExecutionStatus.CANCELLED]
_BURIED = codec.EXECUTION_CODE[ExecutionStatus.DEAD_LETTER]
Grave = tuple[int, int, int, int | None]
"""The lane of a dead letter, its queue, its fresh budget, and its key where keys take turns."""


class PostgresFinishes:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        signals: Signals,
        claims: PostgresClaims,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals
        self._claims = claims
        self._circuits = PostgresCircuits(connections, catalog_cache, signals)

    async def finish(self, finishes: Sequence[Finish], *, lapsed: bool = False) -> list[Lost]:
        first: dict[UUID, Finish] = {}
        for finish in finishes:
            first.setdefault(finish.fence, finish)
        await self._settle_misfits(first)
        ending: list[Finish] = []
        living: list[Finish] = []
        for finish in first.values():
            (ending if is_ending(finish.transition) else living).append(finish)
        calls = []
        if ending:
            calls.append(self._end(ending, lapsed=lapsed))
        if living:
            calls.append(self._again(living, lapsed=lapsed))
        return [lost for losses in await asyncio.gather(*calls) for lost in losses]

    async def _settle_misfits(self, finishes: dict[UUID, Finish]) -> None:
        """Those whose arguments have fitted no handler for long enough end as any failure does."""
        # By type: `isinstance` of a struct goes through the checks of abstract classes, five times
        # as long.
        misfits = {
            fence: one.transition
            for fence, one in finishes.items()
            if type(one.transition) is ToMisfit
        }
        if misfits:
            rows = await self._connections.fetch(
                "whose", list(misfits), self._connections.bound_now()
            )
            for fence, waited in ((row["fence"], row["misfit_seconds"]) for row in rows):
                finishes[fence] = msgspec.structs.replace(
                    finishes[fence], transition=misfits[fence].after(waited)
                )

    async def _end(self, finishes: list[Finish], *, lapsed: bool) -> list[Lost]:
        results, errors, reasons, kinds = [], [], [], []
        for finish in finishes:
            result = error = reason = kind = None
            transition = finish.transition
            if type(transition) is ToSucceeded:
                result = None if transition.result is None else transition.result.decode()
                reason = transition.reason
            elif type(transition) is ToFailed:
                error, reason = codec.error_text(transition.error), transition.reason
                kind = kind_of(transition.error)
            elif type(transition) is ToCancelled:
                reason = transition.reason
            else:
                raise AssertionError(transition)
            results.append(result)
            errors.append(error)
            reasons.append(reason)
            kinds.append(kind)
        statuses, status = codec.shared([_ENDED[type(finish.transition)] for finish in finishes])
        epochs, epoch = codec.shared([epoch_of(finish.fence) for finish in finishes])
        # Columns that hold one value or nothing are not sent as arrays: the driver checks every
        # element of those.
        rows = await self._connections.fetch(
            "end",
            [finish.fence for finish in finishes],
            epochs,
            statuses,
            status,
            [finish.ran for finish in finishes],
            *(
                column if any(value is not None for value in column) else None
                for column in (results, errors, reasons)
            ),
            epoch,
            self._connections.bound_now(),
            lapsed,
            kinds if any(kind is not None for kind in kinds) else None,
        )
        if any(row["fence"] is None and row["lane"] is None for row in rows):
            self._signals.send_room()
        news = {row["lane"]: row["failed"] for row in rows if row["lane"] is not None}
        if news:
            await self._circuits.hear(news)
        return [Lost(row["fence"]) for row in rows if row["fence"] is not None]

    async def _again(self, finishes: list[Finish], *, lapsed: bool) -> list[Lost]:
        facts = await self._facts(finishes)
        buried = await self._graves(finishes, facts)
        living, fallen, lost = [], [], []
        for finish in finishes:
            if not isinstance(finish.transition, ToDeadLetter) or finish.fence in buried:
                living.append(finish)
            elif finish.fence in facts and facts[finish.fence]["cancel_requested"]:
                lost.append(Lost(finish.fence, cancel_requested=True))
            else:
                # The dead letter queue is gone: what would have gone there has failed for good.
                fallen.append(Finish(finish.fence, _failed(finish.transition), finish.ran))
        if fallen:
            lost += await self._end(fallen, lapsed=lapsed)
        if not living:
            return lost
        *columns, misfits, keys, kinds = map(
            list, zip(*(self._row(finish, facts, buried) for finish in living), strict=True)
        )
        rows = await self._connections.fetch(
            "again", *columns, misfits, self._connections.bound_now(), lapsed, keys, kinds
        )
        arrivals = [
            (row["project"], spot_of(row["lane"], row["key"] or NO_KEY), row["turn"])
            for row in rows
            if row["lane"] is not None
        ]
        if arrivals:
            self._claims.look_from_head()
            self._signals.send(arrivals)
        if any(row["room"] for row in rows):
            self._signals.send_room()
        news = {row["heard"]: row["failed"] for row in rows if row["heard"] is not None}
        if news:
            await self._circuits.hear(news)
        return lost + await self._refused(
            [row["fence"] for row in rows if row["fence"] is not None]
        )

    async def _refused(self, fences: list[UUID]) -> list[Lost]:
        """Tell those that are gone from those that are still the caller's, but were asked to
        stop."""
        if not fences:
            return []
        asked = {
            row["fence"]
            for row in await self._connections.fetch("whose", fences, self._connections.bound_now())
            if row["cancel_requested"]
        }
        return [Lost(fence, fence in asked) for fence in fences]

    def _row(
        self,
        finish: Finish,
        facts: dict[UUID, asyncpg.Record],
        buried: dict[UUID, Grave],
    ) -> tuple[Any, ...]:
        fence, transition = finish.fence, finish.transition
        status, spent, crashed, misfit, skipper = _RELEASED, False, False, False, None
        delay: float | None = None
        grave: Grave | tuple[None, None, None, None] = (None, None, None, None)
        error = reason = kind = None
        match transition:
            case ToRetry(wait, info, did_crash, misfit):
                kind = kind_of(info)
                status, delay, spent, crashed, error = (
                    _RETRIED,
                    wait,
                    True,
                    did_crash,
                    codec.error_text(info),
                )
            case ToSnoozed(wait, why):
                delay, reason = wait, why
            case ToHandBack(why):
                reason = why
            case ToSkipped(why):
                reason, skipper = why, facts[fence]["worker"] if fence in facts else None
            case ToMisfit() as unfit:
                reason, misfit, skipper = (
                    unfit.reason,
                    True,
                    facts[fence]["worker"] if fence in facts else None,
                )
            case ToDeadLetter(_, info, why):
                status, delay, spent = _BURIED, 0.0, True
                error, reason, grave = codec.error_text(info), why, buried[fence]
                kind = kind_of(info)
            case ToSucceeded() | ToFailed() | ToCancelled():
                raise AssertionError(transition)
            case _:
                assert_never(transition)
        following = uuid_from_int(fence.int + 1)
        return (
            fence,
            epoch_of(fence),
            following,
            status,
            delay,
            spent,
            crashed,
            skipper,
            *grave[:3],
            error,
            reason,
            finish.ran,
            misfit,
            grave[3],
            kind,
        )

    async def _facts(self, finishes: list[Finish]) -> dict[UUID, asyncpg.Record]:
        """What skips and dead letters depend on: who runs the job, and in which lane."""
        fences = [
            finish.fence
            for finish in finishes
            if isinstance(finish.transition, ToSkipped | ToMisfit | ToDeadLetter)
        ]
        return (
            {
                row["fence"]: row
                for row in await self._connections.fetch(
                    "whose", fences, self._connections.bound_now()
                )
            }
            if fences
            else {}
        )

    async def _graves(
        self, finishes: list[Finish], facts: dict[UUID, asyncpg.Record]
    ) -> dict[UUID, Grave]:
        """For each dead letter whose queue still lives, where it goes."""
        graves = {}
        for finish in finishes:
            if not isinstance(finish.transition, ToDeadLetter) or finish.fence not in facts:
                continue
            row = facts[finish.fence]
            lane = (await self._catalog_cache.lanes([row["lane"]]))[row["lane"]]
            catalog = await self._catalog_cache.newest(lane.project)
            name = str(finish.transition.queue)
            cards = await self._catalog_cache.cards_named(catalog.project, [name])
            if name not in cards:
                continue
            queue = cards[name].queue
            key = (queue.number, lane.job_type, lane.priority, lane.requires)
            number = (await self._catalog_cache.lanes_for([key]))[key].number
            kept = None if queue.settings.fairness is None else row["key"]
            graves[finish.fence] = (number, queue.number, queue.settings.max_attempts, kept)
        return graves


def _failed(transition: Transition) -> ToFailed:
    assert isinstance(transition, ToDeadLetter)
    return ToFailed(transition.error, f"{transition.reason}; its dead letter queue is gone")
