"""Connections for one statement or transaction at a time."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from taskforge.domain.errors import StoreUnavailable
from taskforge.storage.postgres.refusals import (
    Disturbed,
    away,
    is_broken,
    is_read_only,
    not_reached,
)
from taskforge.telemetry.outage import Outage

Connection = PoolConnectionProxy
ACQUIRE_SECONDS = 10.0
# The driver's pool makes a task to hand a connection out and another to take it back: 40 to 60 µs
# for each statement. So the few that were used last are kept at hand.
KEPT_AT_HAND = 2
RENEW_SECONDS = 0.25


class ConnectionPool:
    """A pool with some of its connections at hand."""

    def __init__(self, pool: asyncpg.Pool, on_renewal: Callable[[], None]) -> None:
        self._pool = pool
        self._on_renewal = on_renewal
        self._at_hand: list[Connection] = []
        self._waiting = 0
        self._closing = False
        self._renewed_at = 0.0
        self.generation = 0
        self.outage = Outage()

    async def borrow(self) -> Connection:
        while self._at_hand:
            connection = self._at_hand.pop()
            with suppress(asyncpg.InterfaceError):  # its end was noticed, and the pool has it back
                if not connection.is_closed():
                    return connection
                await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=ACQUIRE_SECONDS)
        except Exception as error:
            # It was served before, or will say at the first opening why it cannot be: whatever
            # keeps us out does so for now.
            refused = not_reached(error, ACQUIRE_SECONDS)
            # One that answers, if only to refuse, may still serve those who were let in before.
            self.outage.meet(refused, unreachable=not isinstance(error, asyncpg.PostgresError))
            raise refused from error
        finally:
            self._waiting -= 1

    def keep(self, connection: Connection, generation: int) -> bool:
        """Whether it stays at hand; not while somebody waits for one from the pool, nor one that
        was to be renewed."""
        kept = (
            not self._waiting
            and not self._closing
            and len(self._at_hand) < KEPT_AT_HAND
            and generation == self.generation
        )
        if kept:
            self._at_hand.append(connection)
        return kept

    async def release(self, connection: Connection) -> None:
        await self._pool.release(connection)

    async def renew(self, connection: Connection) -> None:
        """This session can only read, and stays so for as long as it lasts: after a failover,
        others lead to where one can write. So may the rest of them."""
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
        now = time.monotonic()
        if now - self._renewed_at >= RENEW_SECONDS:
            self._renewed_at = now
            self.generation += 1
            self._on_renewal()
            await self._pool.expire_connections()
            while self._at_hand:
                with suppress(asyncpg.InterfaceError):
                    self._at_hand[-1].terminate()
                await self._pool.release(self._at_hand.pop())

    async def close(self) -> None:
        self._closing = True
        self.outage.is_watching = False
        while self._at_hand:
            await self._pool.release(self._at_hand.pop())
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()


class Borrowed(AbstractAsyncContextManager[Connection]):
    """A connection for the length of a block, and `away` around it. `telling`: whether a lock that
    was not to be had is told of."""

    __slots__ = ("_connection", "_generation", "_pool", "_telling")

    def __init__(self, pool: ConnectionPool, *, telling: bool = True) -> None:
        self._pool = pool
        self._telling = telling

    async def __aenter__(self) -> Connection:
        self._connection = await self._pool.borrow()
        self._generation = self._pool.generation
        return self._connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pool = self._pool
        # One that was in trouble goes back to the pool, which waits for what was cancelled and
        # replaces what broke.
        if error is not None or not pool.keep(self._connection, self._generation):
            with away():
                if is_read_only(error):
                    await pool.renew(self._connection)
                await pool.release(self._connection)
        if error is None:
            pool.outage.serve()
            return
        try:
            away().__exit__(kind, error, trace)
        except StoreUnavailable as refused:
            if self._telling and not isinstance(refused, Disturbed):
                pool.outage.meet(refused, broken=is_broken(error))
            raise
