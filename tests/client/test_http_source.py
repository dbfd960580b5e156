"""The work source over HTTP: long polls, what is held, and a server that goes away and comes
back."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from taskforge import TaskForge
from taskforge.client.problems import AnswerLost, ServerFault
from taskforge.client.requests import Request
from taskforge.domain.access import Forbidden, Throttled
from taskforge.domain.errors import Invalid, LeaseLost, StoreUnavailable
from taskforge.domain.execution import Beat
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import Claimed
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import Success
from taskforge.domain.queue import QueueSettings
from taskforge.domain.worker import NewWorker, Registered
from taskforge.ports.work_source import Completion
from taskforge.sdk.options import Options
from taskforge.telemetry.outage import Outage
from taskforge.worker.http_source import (
    DOUBTFUL_WAIT_SECONDS,
    MOST_FAULTS,
    MOST_FAULTS_ALONE,
    WAIT_SECONDS,
    HttpSource,
)
from tests.support.crew import Crew, until
from tests.support.served import Servers

mint = IdMint()


def claimed(fence: Any) -> Claimed:
    return Claimed(
        fence, "default", "work", b"{}", 1, 3, 0, 0, 300.0, None, None, 0.0, QueueSettings()
    )


class Script:
    """A transport that answers as told and keeps what was sent."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.sent: list[tuple[str, Any]] = []
        self.outage = Outage()

    async def send(self, request: Request[Any]) -> Any:
        assert request.body is not None
        self.sent.append((request.path, msgspec.json.decode(request.body)))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
async def source() -> tuple[HttpSource, Script, Any]:
    script = Script()
    made = HttpSource(script)  # type: ignore[arg-type]
    script.answers = [Registered(mint(), mint())]
    registered = await made.register(NewWorker(name="w"), 5)
    return made, script, registered.incarnation


async def test_after_a_lost_answer_claims_say_what_is_held(
    source: tuple[HttpSource, Script, Any],
) -> None:
    made, script, incarnation = source
    first, second = fence_of(mint(), 1), fence_of(mint(), 1)
    script.answers = [[claimed(first), claimed(second)], AnswerLost("broken"), [], [], [], [], []]
    await made.claim(incarnation, 5)
    with pytest.raises(AnswerLost):
        await made.claim(incarnation, 3)
    await made.claim(incarnation, 3)
    assert [sorted(body["held"]) if body["held"] else None for _, body in script.sent[1:]] == [
        None,
        None,
        sorted(map(str, (first, second))),
    ]
    await made.complete([Completion(claimed(first), Success(None))])
    await made.claim(incarnation, 3)
    assert script.sent[-1][1]["held"] == [str(second)]
    made._doubt_until = 0.0
    await made.claim(incarnation, 3)
    assert script.sent[-1][1]["held"] is None


async def test_what_was_lost_is_not_held_any_more(source: tuple[HttpSource, Script, Any]) -> None:
    """Nobody completes it, so that is the last that is heard of it."""
    made, script, incarnation = source
    kept, beaten, logged = (fence_of(mint(), 1) for _ in range(3))
    script.answers = [
        [claimed(kept), claimed(beaten), claimed(logged)],
        [beaten],
        [logged],
        asyncio.CancelledError(),
        [],
    ]
    await made.claim(incarnation, 5)
    assert await made.beat([Beat(fence=beaten), Beat(fence=kept)]) == [beaten]
    assert await made.log([NewLine(logged, Level.INFO, "line")]) == [logged]
    with pytest.raises(asyncio.CancelledError):
        await made.claim(incarnation, 3)
    await made.claim(incarnation, 3)
    assert script.sent[-1][1]["held"] == [str(kept)]


async def test_a_claim_that_is_given_up_leaves_a_doubt_too(
    source: tuple[HttpSource, Script, Any],
) -> None:
    made, script, incarnation = source
    script.answers = [asyncio.CancelledError(), []]
    with pytest.raises(asyncio.CancelledError):
        await made.claim(incarnation, 3)
    await made.claim(incarnation, 3)
    assert script.sent[-1][1]["held"] == []


async def test_what_a_forgotten_life_says_is_lost_and_what_the_next_one_says_counts(
    source: tuple[HttpSource, Script, Any],
) -> None:
    made, script, before = source
    old, new = fence_of(mint(), 1), fence_of(mint(), 1)
    now = mint()
    script.answers = [
        [claimed(old)],
        Registered(mint(), now),
        [claimed(new)],
        LeaseLost("not registered"),
        [],
    ]
    await made.claim(before, 1)
    await made.register(NewWorker(name="w"), 5)
    await made.claim(now, 1)
    assert await made.complete(
        [Completion(claimed(fence), Success(None)) for fence in (old, new)]
    ) == [old]
    assert [body["incarnation"] for _, body in script.sent[-2:]] == [str(before), str(now)]


async def test_while_the_server_is_away_a_claim_waits_for_little(
    source: tuple[HttpSource, Script, Any],
) -> None:
    """Else it would say only at its end that the server is back."""
    made, script, incarnation = source
    script.outage.is_watching = True
    script.answers = [[], [], []]
    await made.claim(incarnation, 1)
    script.outage.meet(StoreUnavailable("away"), unreachable=True)
    await made.claim(incarnation, 1)
    script.outage.serve()
    await made.claim(incarnation, 1)
    waits = [body["wait_seconds"] for _, body in script.sent[1:]]
    assert waits == [WAIT_SECONDS, DOUBTFUL_WAIT_SECONDS, WAIT_SECONDS]


async def test_a_quota_is_something_to_wait_for(source: tuple[HttpSource, Script, Any]) -> None:
    made, script, incarnation = source
    script.answers = [Throttled(7)]
    with pytest.raises(StoreUnavailable) as caught:
        await made.claim(incarnation, 3)
    assert caught.value.retry_after == 7


async def test_an_outcome_that_the_server_cannot_take_does_not_hold_up_the_others(
    source: tuple[HttpSource, Script, Any],
) -> None:
    """The finisher sends a batch one by one when it is refused as a whole, and goes on without what
    is refused alone."""
    made, script, _ = source
    one = [Completion(claimed(fence_of(mint(), 1)), Success(None))]
    script.answers = [Invalid("result", "is large", "use less")]
    with pytest.raises(ValueError, match="result"):
        await made.complete(one)
    for batch, most in ((one * 2, MOST_FAULTS), (one, MOST_FAULTS_ALONE), (one, MOST_FAULTS_ALONE)):
        script.answers = [ServerFault("fault")] * most
        for _ in range(most - 1):
            with pytest.raises(StoreUnavailable):
                await made.complete(batch)
        with pytest.raises(ValueError, match="fails"):
            await made.complete(batch)


async def test_faults_of_a_server_that_took_outcomes_in_between_do_not_add_up(
    source: tuple[HttpSource, Script, Any],
) -> None:
    made, script, _ = source
    for _ in range(MOST_FAULTS_ALONE):
        one = [Completion(claimed(fence_of(mint(), 1)), Success(None))]
        script.answers = [ServerFault("fault"), []]
        with pytest.raises(StoreUnavailable):
            await made.complete(one)
        assert await made.complete(one) == []


# --- On a real server ---


async def test_an_idle_worker_waits_at_the_server_and_gets_jobs_at_once(
    served: dict[str, Any], monkeypatch: Any
) -> None:
    forge = TaskForge(**served, poll_seconds=5)
    claims: list[int] = []
    real = HttpSource.claim

    async def counted(self: HttpSource, incarnation: Any, limit: int, *more: Any) -> list[Claimed]:
        claims.append(limit)
        return await real(self, incarnation, limit, *more)

    monkeypatch.setattr(HttpSource, "claim", counted)

    @forge.job()
    async def work() -> float:
        return time.time()

    async with Crew(forge) as crew:
        await crew.start(upkeep=False, slots=4)
        await asyncio.sleep(1.5)
        assert claims == [4]
        took = []
        for _ in range(5):
            sent = time.time()
            handle = await work.enqueue()
            took.append(await handle.result(10) - sent)
            await asyncio.sleep(0.1)
        assert min(took) < 0.3


async def test_slots_that_come_free_while_a_claim_waits_are_claimed_for(
    served: dict[str, Any], monkeypatch: Any
) -> None:
    forge = TaskForge(**served, poll_seconds=5)
    claims: list[int] = []
    real = HttpSource.claim

    async def counted(self: HttpSource, incarnation: Any, limit: int, *more: Any) -> list[Claimed]:
        claims.append(limit)
        return await real(self, incarnation, limit, *more)

    monkeypatch.setattr(HttpSource, "claim", counted)
    release = asyncio.Event()

    @forge.job()
    async def held() -> None:
        await release.wait()

    async with Crew(forge) as crew:
        worker = await crew.start(upkeep=False, slots=8)
        await held.enqueue_many([()] * 7)
        await until(lambda: len(worker.executor.running) == 7 and claims[-1] == 1)
        release.set()
        await until(lambda: claims[-1] == 8)
        handles = await held.enqueue_many([()] * 30)
        for handle in handles:
            job = await crew.end(handle)
            assert (job.status, job.attempt_count) == ("succeeded", 1)


async def test_a_worker_outlives_its_server(servers: Servers, tmp_path: Any) -> None:
    """A restart of the server loses no result and spends no attempt, and those who wait get jobs
    again."""
    place = servers.start(tmp_path)
    forge = TaskForge(**place, lease_seconds=10, poll_seconds=0.2)
    release = asyncio.Event()

    @forge.job()
    async def held(number: int) -> int:
        await release.wait()
        return number

    async with Crew(forge) as crew:
        worker = await crew.start(upkeep=False)
        assert worker.registered is not None
        before = worker.registered.incarnation
        handles = await held.enqueue_many([(number,) for number in range(5)])
        await until(lambda: len(worker.executor.running) == 5)
        await asyncio.to_thread(servers.stop, place["url"])
        release.set()  # these end while there is nobody to tell
        await until(lambda: not worker.executor.running)
        await asyncio.sleep(1)
        port = int(place["url"].rpartition(":")[2])
        again = await asyncio.to_thread(servers.start, tmp_path, port)
        assert again["url"] == place["url"]
        assert [await handle.result(20) for handle in handles] == list(range(5))
        assert [(await handle.job()).attempt_count for handle in handles] == [1] * 5
        more = await held.enqueue_many([(number,) for number in range(20)])
        assert [await handle.result(20) for handle in more] == list(range(20))
        assert worker.registered.incarnation == before
    servers.stop(place["url"])


async def test_a_worker_key_works_and_leaves_the_queues_alone(
    served: dict[str, Any], servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="taskforge.sdk")
    owner = TaskForge(**served)
    worker = TaskForge(served["url"], token=servers.worker_key(served["url"]), poll_seconds=0.2)
    for forge in (owner, worker):
        forge.queue("default", max_retries=5)

        @forge.job()
        async def double(number: int) -> int:
            return 2 * number

    async with owner, Crew(worker) as crew:
        await crew.start(upkeep=False)
        [line] = [one.getMessage() for one in caplog.records if one.name == "taskforge.sdk"]
        assert "declared queues are left as they are" in line
        [handle] = await owner.enqueue_many([_built(owner, 21)])
        assert await handle.result(10) == 42
        with pytest.raises(Forbidden, match="job:write"):
            await worker.enqueue_many([_built(worker, 1)])


def _built(forge: TaskForge, number: int) -> Any:
    handler = forge.registry.get("double")
    assert handler is not None
    return Options().build(handler, handler.encode((number,), {}))


async def test_a_revoked_key_ends_the_worker(served: dict[str, Any]) -> None:
    forge = TaskForge(**served)

    @forge.job()
    async def work() -> None: ...

    worker = await forge.worker()
    worker._source._transport.send = _forbidden  # type: ignore[attr-defined]
    with pytest.raises(Forbidden):
        await worker.run()
    await forge.close()


async def _forbidden(_: Request[Any]) -> None:
    raise Forbidden("this needs the permission worker:run")
