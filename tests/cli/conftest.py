import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.job import Claimed, ErrorInfo, new_job
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import Finish, ToFailed, ToRetry, ToSucceeded
from taskforge.domain.queue import CreateQueue, QueueSettings
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import Engine
from taskforge.settings import Settings
from taskforge.wiring import make_engine
from tests.support.shell import Shell

ERROR = ErrorInfo(
    "ValueError",
    "no such [user]",
    'Traceback (most recent call last):\n  File "app.py", line 7\nValueError: no such [user]',
)


def make_store(folder: Path, fill: Callable[[Engine], Awaitable[None]] | None = None) -> Shell:
    """A shell on a store that is up to date and holds what `fill` puts there; made here, because a
    process takes longer."""
    url = f"sqlite:///{folder}/jobs.db"

    async def make() -> None:
        engine = make_engine(Settings(url=url))
        await engine.open()
        await engine.change_queue(FIRST_PROJECT, CreateQueue(name="default"))
        if fill is not None:
            await fill(engine)
        await engine.close()

    asyncio.run(make())
    return Shell(folder, url)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """On a store with the queue `default` and nothing in it."""
    return make_store(tmp_path)


async def _one_of_each(engine: Engine) -> None:
    dead = await engine.change_queue(FIRST_PROJECT, CreateQueue(name="dead"))
    settings = QueueSettings.parse({"dead_letter_queue_id": dead.id, "max_concurrent_jobs": 9})
    await engine.change_queue(
        FIRST_PROJECT, CreateQueue(name="emails", description="letters", settings=settings)
    )
    worker = NewWorker(name="anna", max_concurrent_jobs=4, host="here", pid=1)
    registered = await engine.register(FIRST_PROJECT, worker, 600)
    await engine.renew(registered.incarnation, 600, Sample(12.5, 64_000_000))

    async def claimed(job_type: str) -> Claimed:
        await engine.insert(
            FIRST_PROJECT, [new_job("default", job_type, {"n": 1}, tags=("nightly",))]
        )
        return (await engine.claim(Claim(registered.incarnation, 1)))[0]

    good, bad, flaky, busy = [await claimed(name) for name in ("good", "bad", "flaky", "busy")]
    await engine.log(
        [
            NewLine(bad.fence, Level.INFO, "looking for the user"),
            NewLine(busy.fence, Level.INFO, "on it"),
        ]
    )
    await engine.finish(
        [
            Finish(good.fence, ToSucceeded(b'{"sent":true}'), 0.2),
            Finish(bad.fence, ToFailed(ERROR, "no attempts left after 3"), 0.1),
            Finish(flaky.fence, ToRetry(3_600, ERROR), 0.1),
        ]
    )
    later = new_job("emails", "later", {}, at=3_600.0)
    waiting = [new_job("emails", "letter", {"to": "a@example.org"}, priority=7) for _ in range(3)]
    await engine.insert(FIRST_PROJECT, [later, *waiting])


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One job in each status, for tests that only read."""
    return make_store(tmp_path_factory.mktemp("full"), _one_of_each)


@pytest.fixture
def own(tmp_path: Path) -> Shell:
    """The same, for tests that change it."""
    return make_store(tmp_path, _one_of_each)
