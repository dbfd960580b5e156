"""Who takes part in `bench.drain`: each contender at the settings at which it is quickest, on
stores that are shared."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Self

from bench import installing
from bench.contenders import Contender
from bench.peers import tally
from bench.served import Served
from bench.stores import PostgresStore, RedisStore, SqliteStore

PEERS = ("graphile", "pgqueuer", "celery", "huey", "taskiq")
# A claim may bring as many jobs as there are slots, and handlers that do nothing wait for nothing
# but their next claim.
SLOTS = 1_000
OURS_UNFINISHED = (
    "select (select count(*) from {0}ready) + (select count(*) from {0}waiting) + "
    "(select count(*) from {0}running)"
)


class Lineup:
    """Makes contenders when they are first asked for; closes the stores they shared."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._postgres: PostgresStore | None = None
        self._redis: RedisStore | None = None
        self._sqlite: SqliteStore | None = None
        self._made: dict[str, Contender] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def get(self, name: str) -> Contender:
        """Raises `Failed` when it cannot be installed or its store cannot be started."""
        if name not in self._made:
            make: dict[str, Callable[[], Awaitable[Contender]]] = {
                "ours": self._ours,
                "ours, http": self._ours_http,
                "ours, mixed": self._ours_mixed,
                "ours, sqlite": self._ours_sqlite,
                "ours, sqlite, mixed": self._ours_sqlite_mixed,
                "graphile": self._graphile,
                "pgqueuer": self._pgqueuer,
                "pgqueuer, idle": self._pgqueuer_idle,
                "celery": self._celery,
                "huey": self._huey,
                "huey, synchronous off": self._huey_unsafe,
                "taskiq": self._taskiq,
            }
            self._made[name] = await make[name]()
        return self._made[name]

    # --- Stores ---

    async def postgres(self) -> PostgresStore:
        if self._postgres is None:
            self._postgres = PostgresStore()
            self._stack.push_async_callback(self._postgres.close)
        return self._postgres

    async def redis(self) -> RedisStore:
        if self._redis is None:
            self._redis = await RedisStore.start()
            self._stack.push_async_callback(self._redis.close)
        return self._redis

    async def sqlite(self) -> SqliteStore:
        if self._sqlite is None:
            self._sqlite = SqliteStore()
            self._stack.push_async_callback(self._sqlite.close)
        return self._sqlite

    # --- TaskForge ---

    async def _ours(self) -> Contender:
        return Contender(
            name="TaskForge",
            store=await self.postgres(),
            client=(sys.executable, "-m", "bench.peers.ours"),
            worker=_worker("ours"),
            unfinished=OURS_UNFINISHED.format("taskforge."),
            has_setup=True,
        )

    async def _ours_http(self) -> Contender:
        return Served(
            name="TaskForge over HTTP",
            store=await self.postgres(),
            client=(sys.executable, "-m", "bench.peers.ours"),
            worker=_worker("ours"),
            unfinished=OURS_UNFINISHED.format("taskforge."),
            has_setup=True,
        )

    async def _ours_mixed(self) -> Contender:
        return Contender(
            name="TaskForge, mixed load",
            store=await self.postgres(),
            client=(sys.executable, "-m", "bench.peers.mixed"),
            worker=_worker("mixed"),
            unfinished=OURS_UNFINISHED.format("taskforge."),
            # A quarter of all slots of both processes: a fifth of the jobs are in that queue, so it
            # binds now and then.
            environment={"BENCH_LIMIT": str(SLOTS // 2)},
        )

    async def _ours_sqlite(self) -> Contender:
        return Contender(
            name="TaskForge on SQLite",
            store=await self.sqlite(),
            client=(sys.executable, "-m", "bench.peers.ours"),
            worker=_worker("ours"),
            unfinished=OURS_UNFINISHED.format(""),
            scheme="sqlite:///",
            has_setup=True,
        )

    async def _ours_sqlite_mixed(self) -> Contender:
        return Contender(
            name="TaskForge on SQLite, mixed load",
            store=await self.sqlite(),
            client=(sys.executable, "-m", "bench.peers.mixed"),
            worker=_worker("mixed"),
            unfinished=OURS_UNFINISHED.format(""),
            scheme="sqlite:///",
            environment={"BENCH_LIMIT": str(SLOTS // 4)},
        )

    # --- Peers on PostgreSQL ---

    async def _graphile(self) -> Contender:
        node, modules = await installing.node()
        driver = (str(node), "bench/peers/graphile.mjs")
        return Contender(
            name="Graphile Worker",
            store=await self.postgres(),
            client=driver,
            worker=(*driver, "worker", "0"),
            unfinished="select count(*) from graphile_worker._private_jobs",
            environment={"BENCH_MODULES": str(modules)},
            has_setup=True,
        )

    async def _pgqueuer(self) -> Contender:
        return await self._pgqueuer_with(batch=1_000)

    async def _pgqueuer_idle(self) -> Contender:
        """Nothing is gained by large batches when one job comes at a time."""
        return await self._pgqueuer_with(batch=10)

    async def _pgqueuer_with(self, batch: int) -> Contender:
        driver = (str(await installing.python_of("pgqueuer")), "-m", "bench.peers.pgqueuer")
        return Contender(
            name="PgQueuer",
            store=await self.postgres(),
            client=driver,
            worker=(*driver, "worker", "0"),
            unfinished="select count(*) from pgqueuer",
            environment={"BENCH_BATCH": str(batch)},
            has_setup=True,
        )

    # --- Peers on Redis ---

    async def _celery(self) -> Contender:
        driver = (str(await installing.python_of("celery")), "-m", "bench.peers.celery")
        return Contender(
            name="Celery",
            store=await self.redis(),
            client=driver,
            worker=(*driver, "worker", "0"),
            unfinished="llen celery; hlen unacked",
        )

    async def _taskiq(self) -> Contender:
        python = str(await installing.python_of("taskiq"))
        command = (
            "-m taskiq worker bench.peers.taskiq:broker --log-level ERROR --no-parse --workers 1"
        )
        return Contender(
            name="taskiq",
            store=await self.redis(),
            client=(python, "-m", "bench.peers.taskiq"),
            worker=(python, *command.split()),
            unfinished="xlen taskiq",
        )

    # --- Peers on SQLite ---

    async def _huey(self) -> Contender:
        return await self._huey_with("default")

    async def _huey_unsafe(self) -> Contender:
        return await self._huey_with("off")

    async def _huey_with(self, synchronous: str) -> Contender:
        driver = (str(await installing.python_of("huey")), "-m", "bench.peers.huey")
        return Contender(
            name="Huey" if synchronous == "default" else f"Huey, synchronous {synchronous}",
            store=await self.sqlite(),
            client=driver,
            worker=(*driver, "worker", "0"),
            unfinished="select count(*) from task",
            environment={"BENCH_SYNCHRONOUS": synchronous, "BENCH_THREADS": "1"},
        )


def _worker(app: str) -> tuple[str, ...]:
    return (
        sys.executable,
        "-m",
        "taskforge.cli",
        "worker",
        f"{tally.__package__}.{app}:forge",
        "--slots",
        str(SLOTS),
    )
