"""Connections for one statement or transaction at a time, and what is said when the database does not serve."""

from contextlib import AbstractAsyncContextManager
from types import TracebackType

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from taskforge.domain.errors import Invalid, StoreUnavailable

Connection = PoolConnectionProxy
ACQUIRE_SECONDS = 10.0
# The driver's pool makes a task to hand a connection out and another to take it back: 40 to 60 µs for each statement. So the few
# that were used last are kept at hand.
KEPT_AT_HAND = 2

_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutdowns, cancelled statements
    asyncpg.InsufficientResourcesError,  # too many connections, disk full, out of memory
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,  # deadlocks, serialisation
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.PostgresIOError,
    asyncpg.InternalClientError,
)


class Disturbed(StoreUnavailable):
    """A deadlock or a conflict with another transaction: everything was rolled back."""


class away:  # noqa: N801 - reads as a statement: with away()
    """Turns what the driver raises when the database is away, or refuses for now, into `StoreUnavailable`; and a text that it can
    never hold into `Invalid`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        # NUL, which it finds, or half of a surrogate pair, which the driver finds: no text column can hold them. In a list the
        # driver has an error of its own for that.
        if isinstance(error, asyncpg.CharacterNotInRepertoireError) or (
            isinstance(error, asyncpg.DataError | ValueError) and "codec" in str(error)
        ):
            raise Invalid("text", "holds a character that cannot be stored", "use valid Unicode text without NUL") from error
        if isinstance(error, _AWAY) and not isinstance(error, StoreUnavailable):
            kind_of = Disturbed if isinstance(error, asyncpg.TransactionRollbackError) else StoreUnavailable
            raise kind_of(f"PostgreSQL does not serve just now: {type(error).__name__}: {error}") from error


class Connections:
    """A pool with some of its connections at hand."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._at_hand: list[Connection] = []
        self._waiting = 0
        self._closing = False

    async def borrow(self) -> Connection:
        while self._at_hand:
            connection = self._at_hand.pop()
            if not connection.is_closed():
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=ACQUIRE_SECONDS)
        finally:
            self._waiting -= 1

    def keep(self, connection: Connection) -> bool:
        """Whether it stays at hand; not while somebody waits for one from the pool."""
        kept = not self._waiting and not self._closing and len(self._at_hand) < KEPT_AT_HAND
        if kept:
            self._at_hand.append(connection)
        return kept

    async def release(self, connection: Connection) -> None:
        await self._pool.release(connection)

    async def close(self) -> None:
        self._closing = True
        while self._at_hand:
            await self._pool.release(self._at_hand.pop())
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()


class Borrowed(AbstractAsyncContextManager[Connection]):
    """A connection for the length of a block, and `away` around it."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __aenter__(self) -> Connection:
        with away():
            self._connection = await self._connections.borrow()
        return self._connection

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # One that was in trouble goes back to the pool, which waits for what was cancelled and replaces what broke.
        if error is not None or not self._connections.keep(self._connection):
            with away():
                await self._connections.release(self._connection)
        away().__exit__(kind, error, trace)
