"""What the database knows of its own health: who holds it up, what grows, what is missing."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import asyncpg

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.finding import (
    PARTITIONS,
    Finding,
    Severity,
    UpkeepState,
    fault,
    fine,
    warning,
)
from taskforge.storage.postgres.connections import PostgresConnections

OLD_SECONDS = 600.0
MOST_BEHIND = 10_000_000  # transactions
MOST_DEAD_SHARE, LEAST_DEAD = 0.5, 100_000
MOST_USED = 0.9  # of the server's connections
LISTEN_SECONDS = 2.0
_PROBE = "taskforge_doctor"


class PostgresExamination:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections

    async def examine(self) -> list[Finding]:
        return [
            await self._version(),
            await self._wall(),
            await self._listening(),
            await self._room(),
            await self._snapshot(),
            await self._replication(),
            await self._partitions(),
            *await self._bloat(),
            *await self._indexes(),
        ]

    async def behind(self) -> UpkeepState:
        found = [await self._snapshot(), await self._replication(), await self._partitions()]
        async with self._connections.connection() as connection:
            [row] = await connection.fetch(
                self._connections.sql("behind"), self._connections.bound_now()
            )
        seconds = {name: max(0.0, value or 0.0) for name, value in row.items()}
        return UpkeepState(seconds, tuple(one for one in found if one.level is not Severity.FINE))

    async def _value(self, name: str, *values: Any) -> Any:
        async with self._connections.connection() as connection:
            return await connection.fetchval(self._connections.sql(name), *values)

    async def _version(self) -> Finding:
        return fine("version", str(await self._value("examine_version")).split(" on ")[0])

    async def _wall(self) -> Finding:
        if await self._value("examine_wall", f"{self._connections.schema}_reader"):
            return fine("row-level security", "the wall between projects can be used")
        return warning(
            "row-level security",
            "there is no wall between projects: the role of the readers is missing",
            "migrate once as a user who may create roles",
        )

    async def _listening(self) -> Finding:
        if self._connections.poll_only:
            return fine("LISTEN", "not used: poll_only is set")
        heard = asyncio.Event()
        with contextlib.suppress(
            asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError
        ):
            connection = await self._connections.connect("taskforge doctor")
            try:
                await connection.add_listener(_PROBE, lambda *_: heard.set())
                await self._value("notify", _PROBE, "")
                async with asyncio.timeout(LISTEN_SECONDS):
                    await heard.wait()
            finally:
                connection.terminate()
        if heard.is_set():
            return fine("LISTEN", "wake-ups are heard")
        return warning(
            "LISTEN",
            "wake-ups are not heard; jobs are found by polling",
            "connect past a transaction-mode pooler, or set poll_only",
        )

    async def _room(self) -> Finding:
        used, most = await self._row("examine_connections")
        text = f"{used} of {most} connections are used"
        if used > MOST_USED * most:
            return warning("connections", text, "raise max_connections, or lower pool_size")
        return fine("connections", text)

    async def _snapshot(self) -> Finding:
        age, what, end = await self._row("examine_snapshot")
        if age is None or age < timedelta(seconds=OLD_SECONDS):
            return fine("oldest snapshot", "no transaction holds up vacuum")
        return warning(
            "oldest snapshot",
            f"{what} is {age} old: vacuum cannot clean behind it",
            f"end it: {end}",
        )

    async def _replication(self) -> Finding:
        names = await self._value("examine_replication", MOST_BEHIND)
        if not names:
            return fine("replication slots", "none holds up vacuum")
        return warning(
            "replication slots",
            f"nobody reads {', '.join(names)}, or far behind: they keep the log and hold up vacuum",
            "bring the reader back, or drop them with pg_drop_replication_slot",
        )

    async def _partitions(self) -> Finding:
        missing = await self._value("examine_partitions", self._connections.bound_now())
        if not missing:
            return fine(PARTITIONS, "today's and tomorrow's are there")
        return warning(
            PARTITIONS,
            f"of {', '.join(missing)} there is none; jobs go to the partition for all else",
            "let one process run as a user who may create tables; a day whose first jobs came "
            "before its partition stays so",
        )

    async def _bloat(self) -> list[Finding]:
        rows = await self._connections.fetch(
            "examine_bloat", self._connections.schema, LEAST_DEAD, MOST_DEAD_SHARE
        )
        return [
            warning(
                "bloat",
                f"{row['relname']} holds {row['dead']:,} dead rows beside {row['live']:,}",
                f"vacuum {self._connections.schema}.{row['relname']}, and see what holds it up",
            )
            for row in rows
        ] or [fine("bloat", "no table holds many dead rows")]

    async def _indexes(self) -> list[Finding]:
        rows = await self._connections.fetch("examine_indexes", self._connections.schema)
        return [
            fault(
                "indexes",
                f"{row['name']} is not valid",
                f"reindex index concurrently {row['name']}",
            )
            for row in rows
        ] or [fine("indexes", "all are valid")]

    async def _row(self, name: str) -> Any:
        async with self._connections.connection() as connection:
            row = await connection.fetchrow(self._connections.sql(name))
        if row is None:
            raise StoreUnavailable("the database does not answer")
        return row
