"""taskforge jobs tail"""

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from cyclopts import Parameter
from rich.text import Text

from taskforge.cli import shapes
from taskforge.cli.commands.jobs import note
from taskforge.cli.moments import seconds as parse_seconds
from taskforge.cli.selection import SELECTION, Selection
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, print_json
from taskforge.cli.ui.terminal import status
from taskforge.domain import rules
from taskforge.domain.job import StoredJob
from taskforge.domain.query import JobFilter, Page
from taskforge.ports.engine import AnyEngine

LOOK_SECONDS = 0.4
RECENT = 500
MOST_FOLLOWED = 5_000
Tell = Callable[[StoredJob, str | None, datetime], None]


async def tail(
    *,
    selection: Selection = SELECTION,
    lines: Annotated[int, Parameter(help="How many recent jobs to begin with.")] = 10,
    seconds: Annotated[
        str | None, Parameter(help="Stop by itself after this long; otherwise Ctrl-C stops it.")
    ] = None,
    store: Store = STORE,
) -> None:
    """Follow the status changes of recent jobs. Under --json each change is a document on a line of
    its own."""
    rules.integer("--lines", lines, 0, RECENT)
    limit = None if seconds is None else time.monotonic() + parse_seconds("--seconds", seconds)
    async with opened(store) as engine:
        wanted = await selection.filter(engine)
        follower = JobFollower(engine, wanted, _tell_json if store.json else _teller())
        await follower.begin(lines)
        while limit is None or time.monotonic() < limit:
            await asyncio.sleep(LOOK_SECONDS)
            await follower.look()


class JobFollower:
    """Remembers how the jobs it has seen stood, and tells of those that stand differently."""

    def __init__(self, engine: AnyEngine, wanted: JobFilter, tell: Tell) -> None:
        self._engine = engine
        # A job that leaves the wanted status is no longer listed with it: statuses are compared
        # here instead.
        self._listed = msgspec.structs.replace(wanted, statuses=())
        self._statuses = frozenset(wanted.statuses)
        self._tell = tell
        self._open: dict[UUID, tuple[str, int]] = {}
        self._seen_up_to = UUID(int=0)

    async def begin(self, lines: int) -> None:
        found = await self._recent()
        now = await self._engine.now()
        for job in found[:lines][::-1]:
            self._say(job, None, now)
        self._note(found)

    async def look(self) -> None:
        """One look at jobs that are new, and at the unfinished ones known from before."""
        recent = await self._recent()
        now = await self._engine.now()
        listed = {job.id for job in recent}
        missing = [identifier for identifier in self._open if identifier not in listed]
        for start in range(0, len(missing), 1_000):
            recent += await self._engine.get([self._engine.home], missing[start : start + 1_000])
        for job in sorted(recent, key=lambda job: job.id):
            before = self._open.get(job.id)
            is_new = before is None and job.id > self._seen_up_to
            if is_new or (before is not None and before != (job.status.value, job.attempt_count)):
                self._say(job, None if before is None else before[0], now)
        self._note(recent)

    async def _recent(self) -> list[StoredJob]:
        page = Page(limit=RECENT)
        return (await self._engine.list_jobs([self._engine.home], self._listed, page)).jobs

    def _say(self, job: StoredJob, before: str | None, now: datetime) -> None:
        if not self._statuses or job.status in self._statuses:
            self._tell(job, before, now)

    def _note(self, jobs: Iterable[StoredJob]) -> None:
        for job in jobs:
            self._seen_up_to = max(self._seen_up_to, job.id)
            if job.status.is_final:
                self._open.pop(job.id, None)
            else:
                self._open[job.id] = (job.status.value, job.attempt_count)
        while len(self._open) > MOST_FOLLOWED:
            del self._open[next(iter(self._open))]


def _tell_json(job: StoredJob, before: str | None, at: datetime) -> None:
    print_json(msgspec.json.encode(shapes.change_of_status(job, before, at)).decode())


def _teller() -> Tell:
    out = console()

    def tell(job: StoredJob, before: str | None, at: datetime) -> None:
        line = Text(f"{at.astimezone():%H:%M:%S} ", style="bright_black")
        line.append(f"{job.id} ")
        line.append(f"{job.job_type} ", style="bold")
        line.append(f"{job.queue} ", style="bright_black")
        if before is not None and before != job.status:
            line.append_text(status(before)).append(" → ")
        line.append_text(status(job.status))
        line.append(f" {job.attempt_count}/{job.max_attempts} {note(job, at)}")
        out.print(line, no_wrap=True, overflow="ellipsis")

    return tell
