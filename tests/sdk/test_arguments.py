"""Typed arguments: refused where they are enqueued, and again before the handler runs."""

import functools
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

from taskforge import Context, Invalid, Job, NotFound, Priority, TaskForge
from taskforge.domain.job import new_job
from taskforge.testing import Sandbox


class Colour(Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int


@pytest.fixture
def forge() -> TaskForge:
    return TaskForge("sqlite:///nowhere.db")


async def test_typed_arguments_arrive_as_what_they_were(forge: TaskForge) -> None:
    seen: list[Any] = []

    @forge.job()
    async def typed(
        when: datetime,
        who: UUID,
        colour: Colour,
        points: list[Point],
        amount: Decimal,
        few: Annotated[int, msgspec.Meta(le=5)] = 1,
    ) -> None:
        seen.append((when, who, colour, points, amount, few))

    given = (
        datetime(2030, 1, 1, tzinfo=UTC),
        UUID(int=7),
        Colour.RED,
        [Point(1, 2)],
        Decimal("1.10"),
    )
    async with Sandbox(forge) as box:
        await typed.enqueue(*given)
        await box.run()
        with pytest.raises(Invalid, match="<= 5"):
            await typed.enqueue(*given, few=6)
    assert seen == [(*given, 1)]


def test_many_calls_are_the_same_payloads_as_one_by_one(forge: TaskForge) -> None:
    @forge.job()
    async def typed(
        when: datetime,
        colour: Colour | None,
        text: str = "a",
        *,
        few: Annotated[int, msgspec.Meta(le=5)] = 1,
    ) -> None: ...

    now = datetime(2030, 1, 1, tzinfo=UTC)
    good: list[list[tuple[Any, ...]]] = [
        [(now, Colour.RED, "x"), (now, Colour.RED, 'null "] é')],
        [(now, Colour.RED, "x"), (now, None, "y")],
        [(now, Colour.RED, "x"), (now, Colour.RED)],
        [(now, "red", "x")] * 3,
        [(now, Colour.RED, "x" * 300_000)] * 5,
        [(now, Colour.RED, str(number)) for number in range(450)],
        [],
    ]
    for calls in good:
        assert typed.handler.encode_many(calls) == [typed.handler.encode(one, {}) for one in calls]
    for wrong in [
        (now, "blue", "x"),
        (now, Colour.RED, 5),
        (now,),
        (now, Colour.RED, "x", 1),
        (float("nan"), None, "x"),
        (now, None, "\ud800"),
        (now, Colour.RED, msgspec.UNSET),
        (
            now,
            Colour.RED,
            msgspec.Raw(b'"x"},{"when":"2030-01-01T00:00:00Z","colour":"red","text":"y"'),
        ),
    ]:
        with pytest.raises(Invalid) as alone:
            typed.handler.encode(wrong, {})
        with pytest.raises(Invalid) as among:
            typed.handler.encode_many([(now, Colour.RED, "x"), wrong])
        assert str(among.value) == str(alone.value)


def test_many_large_calls_are_not_all_held_several_times(forge: TaskForge) -> None:
    @forge.job()
    async def store(text: str) -> None: ...

    calls = [("x" * 50_000,)] * 600

    def peak(work: Callable[[], list[bytes]]) -> int:
        tracemalloc.start()
        try:
            assert len(work()) == len(calls)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    alone = peak(lambda: [store.handler.encode(one, {}) for one in calls])
    assert peak(lambda: store.handler.encode_many(calls)) < 1.5 * alone


async def test_wrong_arguments_are_refused_at_enqueue_and_say_how_to_call(forge: TaskForge) -> None:
    @forge.job()
    async def send(to: str, count: int = 1) -> None: ...

    async with Sandbox(forge) as box:
        wrong: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
            ((5,), {}, "Expected `str`, got `int`"),
            ((), {}, r"call it as send\(to: str, count: int = 1\)"),
            (("a",), {"cuont": 2}, "cuont"),
            (("a", 2, 3), {}, "too many"),
            (("a", "many"), {}, r"\$.count"),
            ((object(),), {}, "cannot be written as JSON"),
        ]
        for arguments, named, message in wrong:
            with pytest.raises(Invalid, match=message):
                await send.enqueue(*arguments, **named)
        assert box.jobs() == []


async def test_arguments_only_by_name_with_and_without_defaults(forge: TaskForge) -> None:
    @forge.job()
    async def report(ctx: Context, first: int = 1, *, second: int, third: str = "x") -> list[Any]:
        return [ctx.attempt, first, second, third]

    @forge.job()
    def in_thread(*, only: int) -> int:
        return only

    async with Sandbox(forge) as box:
        handle = await report.enqueue(second=2)
        other = await in_thread.enqueue(only=4)
        await box.run()
        assert await handle.result(1) == [1, 1, 2, "x"]
        assert await other.result(1) == 4
        with pytest.raises(Invalid, match="second"):
            await report.enqueue(1, 2)  # type: ignore[misc]


async def test_a_payload_that_does_not_fit_waits_for_a_handler_that_it_fits_and_fails_in_the_end(
    forge: TaskForge,
) -> None:
    called: list[int] = []

    @forge.job(max_attempts=5)
    async def careful(number: int) -> None:
        called.append(number)

    async with Sandbox(forge) as box:
        for payload in ({"number": "text"}, {"number": 1, "more": 2}, {}, [1], None):
            await forge.insert(new_job("default", "careful", payload))
        jobs = await box.run()
        assert [(job.status, job.attempt_count, job.error) for job in jobs] == [
            ("pending", 0, None)
        ] * 5
        await box.advance(3_600)
        for _ in range(5):
            await box.run()
            await box.advance(300)
        jobs = box.jobs()
    assert called == []
    assert {(job.status, job.attempt_count, job.error and job.error.type) for job in jobs} == {
        ("failed", 3, "InvalidArguments")
    }
    assert len(jobs) == 5


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_null_is_a_payload_without_arguments(forge: TaskForge, kind: str) -> None:
    """It is not what is left out, which is `{}`, but a handler that needs none takes it; one that
    does says what is missing."""
    called: list[str] = []

    if kind == "async":

        @forge.job
        async def ping(name: str = "you") -> None:
            called.append(name)
    else:

        @forge.job
        def ping(name: str = "you") -> None:
            called.append(name)

    @forge.job
    async def greet(name: str) -> None:
        called.append(name)

    async with Sandbox(forge) as box:
        for job_type in ("ping", "greet"):
            await forge.insert(new_job("default", job_type, None))
        taken, waiting = await box.run()
        told = await forge.executions(waiting.id)
    assert (taken.status, taken.payload) == ("succeeded", None)
    assert called == ["you"]
    assert (waiting.status, waiting.attempt_count) == ("pending", 0)
    assert "missing required field `name`" in str(told[-1].reason)


async def test_a_field_added_with_a_default_takes_jobs_of_before(forge: TaskForge) -> None:
    @forge.job()
    async def grown(a: int, b: int = 10) -> int:
        return a + b

    async with Sandbox(forge) as box:
        inserted = await forge.insert(new_job("default", "grown", {"a": 1}))
        await box.run()
        assert (await forge.get(inserted.job)).result == 11


def test_handlers_that_cannot_be_jobs_are_refused_where_they_are_declared(forge: TaskForge) -> None:
    def many(*numbers: int) -> None: ...
    def any_name(**values: int) -> None: ...
    def by_position(a: int, /) -> None: ...
    def strange(what: type) -> None: ...
    def late(number: int, context: Context) -> None: ...
    def late_too(number: int, ctx) -> None: ...  # type: ignore[no-untyped-def]
    def method(self, to: str) -> None: ...  # type: ignore[no-untyped-def]
    def unknown(when: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    async def fine() -> None: ...
    def plain() -> None: ...

    for wrong in (many, any_name, by_position):
        with pytest.raises(Invalid, match="named parameters"):
            forge.job()(wrong)
    for wrong in (late, late_too):
        with pytest.raises(
            Invalid,
            match=r"has the context, \w+, behind other parameters; let the context be the first",
        ):
            forge.job()(wrong)
    with pytest.raises(
        Invalid, match=r"method\(\): has the parameter self: .*; use a function, or a job class"
    ):
        forge.job()(method)
    with pytest.raises(
        Invalid,
        match=r"unknown\(\): has an annotation with 'Nowhere', .* outside of `if TYPE_CHECKING`",
    ):
        forge.job()(unknown)
    with pytest.raises(Invalid, match=r"job\(\): is given 'emails' by position; .*queue="):
        forge.job("emails")  # type: ignore[call-overload]
    with pytest.raises(
        Invalid, match=r"is given the class Colour; add job classes with @forge.add"
    ):
        forge.job(Colour)
    with pytest.raises(Invalid, match="qeue: is not a known setting; did you mean 'queue'"):
        forge.job(qeue="emails")  # type: ignore[call-overload]
    with pytest.raises(Invalid, match="use 'async' for async functions"):
        forge.job(kind="process")(fine)
    with pytest.raises(Invalid, match="plain function"):
        forge.job(kind="async")(plain)
    with pytest.raises(Invalid, match="kind"):
        forge.job(kind="green")(plain)
    with pytest.raises(Invalid, match="priority"):
        forge.job(priority=11)(plain)
    forge.job()(plain)
    with pytest.raises(Invalid, match="has a handler already"):
        forge.job(job_type="plain")(strange)


async def test_calling_a_decorated_function_just_calls_it(forge: TaskForge) -> None:
    @forge.job()
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert (add(1, 2), add.__name__, add.__doc__) == (3, "add", "Adds.")


async def test_the_decorator_needs_no_parentheses(forge: TaskForge) -> None:
    @forge.job
    async def add(ctx: Context, a: int, b: int = 1) -> int:
        return a + b + ctx.attempt

    @forge.job
    def text(ctx: str = "payload here", *, last: str, context: str = "!") -> str:
        return last + context

    async with Sandbox(forge) as box:
        handle, other = await add.enqueue(1, b=2), await text.enqueue(last="a")
        await box.run()
        assert (await handle.result(0), await other.result(0)) == (4, "a!")


async def test_job_classes(forge: TaskForge) -> None:
    @forge.add
    class Replicate(Job):
        queue = "storage"
        priority = Priority.CRITICAL
        max_retries = 4
        timeout = 7.0
        tags = ("copy",)

        source: str
        targets: tuple[str, ...] = ()

        async def execute(self, ctx: Context) -> str:
            ctx.progress(1.0)
            return f"{self.source} to {len(self.targets)} as attempt {ctx.attempt}"

    @forge.add
    class Named(Job):
        job_type = "objects.heal"
        aliases = ("Heal",)

        async def execute(self, ctx: Context) -> None: ...

    class Unknown(Job):
        async def execute(self, ctx: Context) -> None: ...

    async with Sandbox(forge) as box:
        handle = await forge.enqueue(Replicate(source="a", targets=("b", "c")), delay=5)
        job = await handle.job()
        assert (job.queue, job.priority, job.max_attempts, job.timeout_seconds, job.tags) == (
            "storage",
            9,
            5,
            7.0,
            ("copy",),
        )
        assert (job.job_type, job.status) == ("Replicate", "scheduled")
        await forge.enqueue_many([Named(), Named()])
        await forge.insert(new_job("default", "Heal", {}))
        await box.advance(5)
        assert [job.status for job in await box.run()] == ["succeeded"] * 4
        assert await handle.result(1) == "a to 2 as attempt 1"
        with pytest.raises(Invalid, match=r"\$.source"):
            await forge.enqueue(Replicate(source=4))  # type: ignore[arg-type]
        with pytest.raises(NotFound, match="Unknown"):
            await forge.enqueue(Unknown())


def test_job_classes_that_cannot_work_are_refused_where_they_are_added(forge: TaskForge) -> None:
    class Typed(Job):
        queue: str = "storage"  # type: ignore[misc]
        source: str

        async def execute(self, ctx: Context) -> None: ...

    class Tagged(Job):
        tags: list[str]  # type: ignore[misc, assignment]

        async def execute(self, ctx: Context) -> None: ...

    class Empty(Job):
        source: str

    class Plain(Job):
        def execute(self, ctx: Context) -> None: ...  # type: ignore[override]

    class Alone(Job):
        async def execute(self) -> None: ...  # type: ignore[override]

    def wrapped(call: Any) -> Any:
        @functools.wraps(call)
        def around(*args: Any) -> Any:
            return call(*args)

        return around

    class Decorated(Job):
        @wrapped
        async def execute(self, ctx: Context) -> None: ...

    class Twice(Job):
        max_attempts = 5
        max_retries = 4

        async def execute(self, ctx: Context) -> None: ...

    for kind, problem in (
        (Typed, "Typed.queue: has a type, .*; write `queue = …` without a type"),
        (Tagged, "Tagged.tags: has a type, .* give the field of the payload another name"),
        (Empty, "Empty.execute: is missing; write `async def execute"),
        (Plain, "Plain.execute: is a plain function; write `async def execute`"),
        (Alone, "Alone.execute: cannot be called with the context alone"),
        (Twice, "Twice.max_retries: is given together with max_attempts"),
    ):
        with pytest.raises(Invalid, match=problem):
            forge.add(kind)
    assert forge.registry.types() == ()
    forge.add(Decorated)


def test_a_job_class_may_count_attempts_and_have_its_fields_in_any_order(forge: TaskForge) -> None:
    @forge.add
    class Copy(Job):
        max_attempts = 7
        note: str = ""
        source: str

        async def execute(self, ctx: Context) -> None: ...

    @forge.add
    class Move(Copy):
        target: str

    assert forge.build(Copy(source="a")).max_attempts == 7
    assert (
        forge.build(Move(source="a", target="b")).payload
        == b'{"note":"","source":"a","target":"b"}'
    )
