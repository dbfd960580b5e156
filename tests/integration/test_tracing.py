"""One trace across real processes: caller, server, worker, handler, children; what a real receiver
of OTLP gets of it."""

import contextlib
import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge.telemetry.trace_export import LEAVE_SECONDS
from tests.support.otlp import Receiver, Seen, receiving
from tests.support.shell import Process, Shell

APP = """
import logging
from taskforge import Context, Retry, Skip, Snooze, TaskForge

forge = TaskForge(poll_seconds=0.05, upkeep_seconds=0.05)
SECRET = "tfk_abcdefghijklmnopqrstuvwxyz"

@forge.job(queue="orders")
async def order(number: int) -> None:
    logging.getLogger("shop").warning("ordered")
    await bill.enqueue(number)
    await pack.enqueue("hidden-payload")

@forge.job(queue="bills")
def bill(number: int) -> None:
    forge.sync(post.enqueue(number))

@forge.job(queue="parcels", kind="process")
def pack(what: str) -> None:
    logging.getLogger("shop").warning("packed")
    forge.sync(post.enqueue(7))

@forge.job(queue="letters")
async def post(number: int) -> None:
    pass

@forge.job(queue="flaky", max_attempts=2)
async def flaky(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise ValueError(f"first {SECRET}")

@forge.job(queue="verdicts", max_attempts=2)
async def again(ctx: Context) -> None:
    if ctx.fencing_token == 1:
        raise Snooze(0.05)
    if ctx.attempt == 1:
        raise Retry(0.05)
    raise Skip()

@forge.job(queue="many")
async def one_of_many(number: int) -> None:
    pass
"""

CALLER = """
import asyncio
import sys
import asyncpg
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

import shop

async def main() -> None:
    tracer = trace.get_tracer("shop")
    async with shop.forge:
        with tracer.start_as_current_span("checkout"):
            if "within" in sys.argv:
                connection = await asyncpg.connect(shop.forge.settings.url)
                async with connection.transaction():
                    await shop.forge.insert_within(connection, [shop.order.build(1)])
                await connection.close()
            else:
                await shop.order.enqueue(1)
        if "others" in sys.argv:
            with tracer.start_as_current_span("others"):
                await shop.flaky.enqueue()
                await shop.again.enqueue()
                await shop.one_of_many.enqueue_many([(1,), (2,), (3,)])

asyncio.run(main())
provider.shutdown()
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path, receiver: Receiver) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "caller.py").write_text(CALLER)
    made = Shell(tmp_path, f"sqlite:///{tmp_path}/jobs.db")
    made.environment |= receiver.environment | {"TASKFORGE_LOG_FORMAT": "json"}
    return made


@contextlib.contextmanager
def served(shop: Shell) -> Iterator[None]:
    """A server on the store; everything else goes by it."""
    with shop.started("server", "--port", "0", "--json") as server:
        server.until("api_key")
        told = json.loads(next(one for one in server.text.splitlines() if "api_key" in one))
        shop.environment |= {"TASKFORGE_URL": told["address"], "TASKFORGE_TOKEN": told["api_key"]}
        yield


@contextlib.contextmanager
def working(shop: Shell) -> Iterator[Process]:
    with shop.started("worker", "shop:forge", "--name", "anna") as worker:
        worker.until("slots runs")
        yield worker


def call(shop: Shell, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "caller.py", *words],
        cwd=shop.folder,
        env=shop.environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.rotates
@pytest.mark.parametrize("place", ["sqlite", "postgres", "http"])
def test_one_trace_leads_from_the_caller_to_the_jobs_of_its_jobs(
    shop: Shell, receiver: Receiver, place: str, request: pytest.FixtureRequest
) -> None:
    if place == "postgres":
        shop.environment["TASKFORGE_URL"] = request.getfixturevalue("postgres_url")
        shop.environment["TASKFORGE_SCHEMA"] = f"test_{secrets.token_hex(6)}"
    with served(shop) if place == "http" else contextlib.nullcontext(), working(shop) as worker:
        call(shop, "within" if place == "postgres" else "")
        receiver.until(lambda: len(receiver.named("process letters")) == 2)
        receiver.until(lambda: len(receiver.named("send letters")) == 2)
        for name in ("orders", "bills", "parcels"):
            receiver.one(f"process {name}")
        text = worker.text
    checkout = receiver.one("checkout")
    spans = [span for span in receiver.spans if span.trace == checkout.trace]

    def below(span: Seen, name: str, kind: str, service: str) -> Seen:
        (found,) = [one for one in spans if one.parent == span.id and one.name == name]
        assert (found.kind, found.service, found.links) == (kind, service, ())
        return found

    sent = below(checkout, "send orders", "producer", "shop")
    ran = below(sent, "process orders", "consumer", "taskforge-worker")
    assert sent.attributes == {
        "messaging.system": "taskforge",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": ran.attributes["messaging.message.id"],
        "taskforge.job_type": "order",
    }
    assert ran.attributes["messaging.operation.type"] == "process"
    assert ran.attributes["messaging.client.id"] == "anna"
    assert ran.attributes["taskforge.attempt"] == 1
    assert ran.attributes["taskforge.outcome"] == "succeeded"
    assert 0 <= ran.attributes["taskforge.wait_seconds"] < 20
    assert len(ran.attributes["taskforge.worker.id"]) == 36
    for name in ("bills", "parcels"):  # handled in a thread, and in a process of its own
        child = below(ran, f"send {name}", "producer", "taskforge-worker")
        handled = below(child, f"process {name}", "consumer", "taskforge-worker")
        letter = below(handled, "send letters", "producer", "taskforge-worker")
        below(letter, "process letters", "consumer", "taskforge-worker")
    if place == "http":
        below(sent, "POST /api/v1/jobs", "server", "taskforge-server")
    assert not any(b"hidden-payload" in span.raw for span in receiver.spans)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"time')]
    ids = {line["message"]: (line["trace_id"], line["span_id"]) for line in lines if "job" in line}
    assert ids["ordered"] == (checkout.trace, ran.id)
    assert ids["packed"][0] == checkout.trace


def test_each_attempt_and_each_job_of_a_batch_has_a_span(shop: Shell, receiver: Receiver) -> None:
    with working(shop):
        call(shop, "others")
        receiver.until(lambda: len(receiver.named("process many")) == 3)
        receiver.until(lambda: len(receiver.named("process flaky")) == 2)
        receiver.until(lambda: len(receiver.named("process verdicts")) >= 3)
    others = receiver.one("others")

    first, second = receiver.named("process flaky")
    sent = receiver.one("send flaky")
    assert sent.parent == others.id
    assert [one.parent for one in (first, second)] == [sent.id, sent.id]
    assert [one.attributes["taskforge.attempt"] for one in (first, second)] == [1, 2]
    assert [one.attributes["taskforge.outcome"] for one in (first, second)] == [
        "failed",
        "succeeded",
    ]
    assert [one.is_error for one in (first, second)] == [True, False]
    ((name, event),) = first.events
    assert (name, event["exception.type"]) == ("exception", "ValueError")
    assert event["exception.message"] == "first tfk_abcd***"
    assert "in flaky" in event["exception.stacktrace"]
    assert not any(b"tfk_abcdefgh" in span.raw for span in receiver.spans)

    verdicts = receiver.named("process verdicts")[:3]
    assert [one.attributes["taskforge.outcome"] for one in verdicts] == [
        "snoozed",
        "retry",
        "skipped",
    ]
    assert [one.is_error for one in verdicts] == [False, True, False]

    batch = receiver.one("send many")
    assert (batch.kind, batch.parent) == ("producer", others.id)
    assert batch.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in batch.attributes
    many = receiver.named("process many")
    assert len({one.trace for one in many} | {others.trace}) == 4
    assert all((one.parent, one.links) == ("", ((batch.trace, batch.id),)) for one in many)


def test_a_receiver_that_is_away_holds_up_no_worker(shop: Shell) -> None:
    shop.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    with working(shop) as worker:
        shop.json("enqueue", "post", "--payload", '{"number": 1}', "--queue", "letters", "--wait")
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert time.monotonic() - began < 2 * LEAVE_SECONDS


USED = """
import asyncio, sys
from taskforge import TaskForge

forge = TaskForge("sqlite:///plain.db")

@forge.job()
async def sell() -> None: ...

async def main() -> None:
    async with forge:
        await sell.enqueue()

asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
sys.modules["opentelemetry"] = None
from taskforge.telemetry.trace_export import export_traces
try:
    export_traces("shop")
except Exception as error:
    print(error)
"""


def test_without_the_extra_nothing_is_imported_and_the_setting_says_what_to_install(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", USED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    nothing, problem = done.stdout.splitlines()
    assert nothing == "[]"
    assert problem.startswith("tracing: is on, and OpenTelemetry is not installed")
    assert "taskforge-platform[otel]" in problem


SANDBOXED = """
import asyncio, json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from taskforge import TaskForge
from taskforge.domain.errors import NotFound
from taskforge.testing import Sandbox

kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
forge = TaskForge("sqlite:///boxed.db")

@forge.job(queue="one")
async def one() -> None: ...

@forge.job(queue="two")
async def two() -> None: ...

async def main() -> None:
    async with Sandbox(forge) as box:
        for _ in range(2):
            await one.options(unique="same").enqueue()
        await forge.enqueue_many([one.build(), two.build()])
        await two.options(trace="00-" + "a" * 32 + "-" + "b" * 16 + "-00").enqueue()
        try:
            await one.options(queue="nowhere").enqueue()
        except NotFound:
            pass
        await box.run()

asyncio.run(main())
print(json.dumps([
    {"name": span.name, "error": not span.status.is_ok and span.status.status_code.name == "ERROR",
     "root": span.parent is None, "links": len(span.links), **dict(span.attributes)}
    for span in kept.get_finished_spans()
]))
"""


def test_a_sandbox_makes_the_spans_of_a_worker(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SANDBOXED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sent, again, both, refused, *ran = json.loads(done.stdout)
    assert [one["name"] for one in (sent, again, both, refused)] == [
        *("send one", "send one", "send", "send nowhere"),
    ]
    assert (again["taskforge.existed"], "taskforge.existed" in sent) == (True, False)
    assert both["messaging.batch.message_count"] == 2
    assert not {"messaging.destination.name", "taskforge.job_type"} & both.keys()
    assert (refused["error"], refused["error.type"]) == (True, "NotFound")
    # the one whose caller does not record its trace is not recorded either
    assert [(one["name"], one["root"], one["links"]) for one in ran] == [
        ("process one", False, 0),
        ("process one", True, 1),
        ("process two", True, 1),
    ]
    assert {one["messaging.client.id"] for one in ran} == {"inline"}
