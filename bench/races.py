"""The end-to-end measurements: through the SDK and real worker processes, beside peers that do the
same in the same minutes."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from bench.beside import Comparison, Run, delays_text, interleaved, rate_text
from bench.lineup import Lineup
from bench.report import Target, percentile

POSTGRES, SQLITE = "postgres", "sqlite"


class RaceSizes(msgspec.Struct, frozen=True, kw_only=True):
    rounds: int
    # of what takes seconds: the more of them, the less a neighbour's burst falls on one side only
    short_rounds: int
    drain: int  # fewer than 150,000 jobs do not churn the tables, and a bad plan then goes unseen
    slow_drain: int  # for peers that take a second for a thousand jobs
    sqlite_drain: int
    huey_drain: int
    head: int
    bulk: int
    singles: int
    pickups: int  # a round; 2,000 are wanted in all


FULL = RaceSizes(
    rounds=3,
    short_rounds=7,
    drain=150_000,
    slow_drain=6_000,
    sqlite_drain=150_000,
    huey_drain=10_000,
    head=50_000,
    bulk=50_000,
    singles=1_000,
    pickups=300,
)
QUICK = RaceSizes(
    rounds=1,
    short_rounds=1,
    drain=20_000,
    slow_drain=1_500,
    sqlite_drain=20_000,
    huey_drain=1_500,
    head=5_000,
    bulk=20_000,
    singles=1_000,
    pickups=300,
)


class Races:
    def __init__(
        self, lineup: Lineup, peers: Sequence[str], sizes: RaceSizes, report: Comparison
    ) -> None:
        self._lineup, self._peers, self._sizes, self._report = lineup, peers, sizes, report

    # --- Runs ---

    async def _drain(self, name: str, count: int, workers: int) -> float:
        return (await (await self._lineup.get(name)).drain(count, workers)).rate

    async def _handle(self, name: str, count: int, workers: int) -> float:
        return (await (await self._lineup.get(name)).drain(count, workers)).handler_rate

    async def _behind(self, name: str, count: int, workers: int) -> float:
        return (
            await (await self._lineup.get(name)).drain_behind(self._sizes.head, count, workers)
        ).handler_rate

    async def _enqueue(self, name: str, word: str, count: int) -> float:
        return await (await self._lineup.get(name)).enqueue(word, count)

    def _of_peers(self, runs: dict[str, tuple[str, Run]]) -> dict[str, Run]:
        """Those of the peers that were asked for, and our own."""
        return {
            label: run for label, (peer, run) in runs.items() if peer == "" or peer in self._peers
        }

    # --- Measurements ---

    async def drain(self) -> None:
        sizes, run = self._sizes, self._drain
        runs = self._of_peers(
            {
                "Graphile Worker, 1 process": (
                    "graphile",
                    partial(run, "graphile", sizes.drain, 1),
                ),
                "TaskForge, 1 process": ("", partial(run, "ours", sizes.drain, 1)),
                "Graphile Worker, 2 processes": (
                    "graphile",
                    partial(run, "graphile", sizes.drain, 2),
                ),
                "TaskForge, 2 processes": ("", partial(run, "ours", sizes.drain, 2)),
                "PgQueuer, 2 processes": ("pgqueuer", partial(run, "pgqueuer", sizes.drain, 2)),
                "Celery on Redis, 2 processes": (
                    "celery",
                    partial(run, "celery", sizes.slow_drain, 2),
                ),
            }
        )
        got = await interleaved(self._report, "drain", sizes.rounds, runs, rate_text)
        one, two = got.get("TaskForge, 1 process", []), got.get("TaskForge, 2 processes", [])
        row = partial(self._row, POSTGRES, got)
        row("drain, 1 process", "Graphile Worker, 1 process", one, Target(ratio_at_least=1.0))
        row("drain, 2 processes", "Graphile Worker, 2 processes", two, Target(ratio_at_least=1.0))
        row("drain, 2 processes", "PgQueuer, 2 processes", two, Target(ratio_at_least=2.0))
        row("drain, 2 processes", "Celery on Redis, 2 processes", two, Target(ratio_at_least=25.0))
        await self._drain_sqlite()

    async def _drain_sqlite(self) -> None:
        sizes, run = self._sizes, self._drain
        runs = self._of_peers(
            {
                "Huey, synchronous off": (
                    "huey",
                    partial(run, "huey, synchronous off", sizes.huey_drain, 1),
                ),
                "TaskForge, 1 process": ("", partial(run, "ours, sqlite", sizes.sqlite_drain, 1)),
                "Huey": ("huey", partial(run, "huey", sizes.huey_drain, 1)),
            }
        )
        got = await interleaved(self._report, "drain on SQLite", sizes.rounds, runs, rate_text)
        ours = got.get("TaskForge, 1 process", [])
        self._row(
            SQLITE,
            got,
            "drain, 1 process",
            "Huey, synchronous off",
            ours,
            Target(ratio_at_least=5.0),
        )
        self._row(SQLITE, got, "drain, 1 process", "Huey", ours, None)
        self._report.rate(SQLITE, "drain, 1 process", ours, Target(rate_at_least=25_000))

    async def mixed(self) -> None:
        """Beside our own plain rate, by handlers run, which is all that can be compared while some
        jobs wait to be tried again."""
        sizes = self._sizes
        for engine, plain, hard, workers, count in (
            (POSTGRES, "ours", "ours, mixed", 2, sizes.drain),
            (SQLITE, "ours, sqlite", "ours, sqlite, mixed", 1, sizes.sqlite_drain),
        ):
            runs: dict[str, Run] = {
                "plain": partial(self._handle, plain, count, workers),
                "mixed": partial(self._behind, hard, count, workers),
            }
            got = await interleaved(
                self._report, f"mixed load on {engine}", sizes.rounds, runs, rate_text
            )
            self._row(
                engine, got, "mixed load", "plain", got.get("mixed", []), Target(ratio_at_least=0.6)
            )

    async def http(self) -> None:
        """Workers over HTTP beside the same workers on PostgreSQL itself."""
        sizes = self._sizes
        runs: dict[str, Run] = {
            "direct": partial(self._drain, "ours", sizes.drain, 1),
            "over HTTP": partial(self._drain, "ours, http", sizes.drain, 1),
        }
        got = await interleaved(self._report, "drain over HTTP", sizes.rounds, runs, rate_text)
        self._row(
            POSTGRES,
            got,
            "drain over HTTP",
            "direct",
            got.get("over HTTP", []),
            Target(ratio_at_least=0.25),
        )
        picks: dict[str, Callable[[], Awaitable[list[float]]]] = {
            "direct": partial(self._pick_up, "ours", sizes.pickups),
            "over HTTP": partial(self._pick_up, "ours, http", sizes.pickups),
        }
        delays = await interleaved(
            self._report, "idle pickup over HTTP", sizes.short_rounds, picks, delays_text
        )
        if len(delays) == 2:
            # Ten milliseconds more than direct: as a fixed figure, because both move together.
            direct = percentile([delay for one in delays["direct"] for delay in one], 0.95)
            targets = {"p95": Target(ms_at_most=direct + 10.0)}
            self._report.delays(
                POSTGRES,
                "idle pickup over HTTP",
                "direct",
                delays["direct"],
                delays["over HTTP"],
                targets,
            )

    async def bulk(self) -> None:
        await self._enqueueing(
            "bulk",
            "bulk enqueue",
            self._sizes.bulk,
            {"graphile": Target(ratio_at_least=1.7), "pgqueuer": None},
        )

    async def single(self) -> None:
        await self._enqueueing(
            "single", "one at a time", self._sizes.singles, {"pgqueuer": Target(ratio_at_least=1.0)}
        )

    async def _enqueueing(
        self, word: str, what: str, count: int, targets: dict[str, Target | None]
    ) -> None:
        labels = {"graphile": "Graphile Worker", "pgqueuer": "PgQueuer"}
        runs: dict[str, tuple[str, Run]] = {
            labels[peer]: (peer, partial(self._enqueue, peer, word, count)) for peer in targets
        }
        runs["TaskForge"] = ("", partial(self._enqueue, "ours", word, count))
        got = await interleaved(
            self._report, what, self._sizes.short_rounds, self._of_peers(runs), rate_text
        )
        for peer, target in targets.items():
            self._row(POSTGRES, got, what, labels[peer], got.get("TaskForge", []), target)

    def _row(
        self,
        engine: str,
        got: dict[str, list[float]],
        what: str,
        peer: str,
        ours: list[float],
        target: Target | None,
    ) -> None:
        self._report.rates(engine, what, peer, got.get(peer, []), ours, target)

    async def pickup(self) -> None:
        report, count, label = self._report, self._sizes.pickups, "idle pickup"
        runs: dict[str, Callable[[], Awaitable[list[float]]]] = {
            "TaskForge": partial(self._pick_up, "ours", count),
            "TaskForge on SQLite": partial(self._pick_up, "ours, sqlite", count),
        }
        if "pgqueuer" in self._peers:
            runs["PgQueuer"] = partial(self._pick_up, "pgqueuer, idle", count)
        if "taskiq" in self._peers:
            runs["taskiq on Redis"] = partial(self._pick_up, "taskiq", count)
        got = await interleaved(report, label, self._sizes.short_rounds, runs, delays_text)
        targets = {
            "PgQueuer": {"p50": Target(ratio_at_most=1.0)},
            "taskiq on Redis": {"p95": Target(ratio_at_most=1.2)},
        }
        for peer, target in targets.items():
            if peer in got and "TaskForge" in got:
                report.delays(POSTGRES, label, peer, got[peer], got["TaskForge"], target)
        if ours := got.get("TaskForge on SQLite"):
            fixed = {"p50": Target(ms_at_most=1.0), "p95": Target(ms_at_most=3.0)}
            report.delays(SQLITE, f"{label} in one process", "", [], ours, fixed)

    async def _pick_up(self, name: str, count: int) -> list[float]:
        contender = await self._lineup.get(name)
        return await (
            contender.pickup_within(count) if name == "ours, sqlite" else contender.pickup(count)
        )
