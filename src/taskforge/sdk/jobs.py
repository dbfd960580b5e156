"""Jobs as functions: the decorator, and what `enqueue` is called on."""

import functools
import inspect
import operator
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from taskforge.domain import rules
from taskforge.domain.alike import Alike
from taskforge.domain.errors import Invalid
from taskforge.domain.job import NewJob
from taskforge.operations import jobs as operations
from taskforge.sdk.handles import JobHandle
from taskforge.sdk.options import EnqueueOptions, HandlerOptions, Options
from taskforge.worker.context import Context
from taskforge.worker.registry import Handler

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge

P = ParamSpec("P")  # what `enqueue` takes
R = TypeVar("R")  # what `result` gives
Q = ParamSpec("Q")  # what the function itself takes, the context too
C = TypeVar("C")  # what calling it returns


class Enqueuer(Generic[P, R]):
    """A handler with options: what `enqueue` is called on."""

    def __init__(
        self, forge: "TaskForge", handler: Handler, options: Options, result_type: Any
    ) -> None:
        self._forge = forge
        self.handler = handler
        self._options = options
        self._result_type = result_type
        # all but the payload, checked once for all jobs with these options
        self._template: NewJob | None = None
        self._template_version = -1  # of the handler's own

    def build(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job, checked but not enqueued: for `forge.enqueue_many` and for transactions."""
        return self._with(self.handler.encode(args, kwargs))

    def _with(self, payload: bytes) -> NewJob:
        if self._template is None or self._template_version != self.handler.options_version:
            self._template_version = self.handler.options_version
            self._template = self._options.build(self.handler, payload)
        return msgspec.structs.replace(self._template, payload=payload)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        job = self.build(*args, **kwargs)
        engine = await self._forge.engine()
        inserted = await operations.enqueue(engine, engine.home, job)
        return JobHandle(self._forge, inserted.job, inserted.existed, self._result_type)

    async def enqueue_many(
        self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]
    ) -> list[JobHandle[R]]:
        """One job for each tuple of positional or mapping of named arguments, all in one go."""
        given = list(calls)
        if not given:
            return []
        if all([type(one) is tuple for one in given]):  # noqa: C419 - twice as fast as a generator
            payloads = self.handler.encode_many(cast("list[tuple[Any, ...]]", given))
        else:
            encode = self.handler.encode
            payloads = [
                encode((), one) if isinstance(one, Mapping) else encode(_positions(one), {})
                for one in given
            ]
        answers = await self._forge.insert_many(Alike(self._with(payloads[0]), payloads))
        forge, result_type = self._forge, self._result_type
        return [JobHandle(forge, one.job, one.existed, result_type) for one in answers]


def _positions(given: Any) -> tuple[Any, ...]:
    if isinstance(given, str | bytes | bytearray) or not isinstance(given, Iterable):
        raise Invalid(
            "calls",
            f"has {given!r} where the arguments of a job belong",
            "use a tuple or a mapping for each job, as [(1,)]",
        )
    return tuple(given)


class JobFunction(Enqueuer[P, R], Generic[P, R, Q, C]):
    """A decorated handler. Calling it runs the function here and now; `enqueue` has a worker run
    it."""

    def __init__(self, forge: "TaskForge", handler: Handler) -> None:
        super().__init__(forge, handler, Options(), _result_type(handler.call))
        self.__wrapped__ = handler.call
        self.__name__ = getattr(handler.call, "__name__", handler.job_type)
        self.__doc__ = handler.call.__doc__
        self.__module__ = handler.call.__module__

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> C:
        return self.handler.call(*args, **kwargs)  # type: ignore[no-any-return]

    def options(self, **options: Unpack[EnqueueOptions]) -> Enqueuer[P, R]:
        """The same handler with other options for the next enqueue: `await
        send.options(delay=60).enqueue(…)`."""
        return Enqueuer(self._forge, self.handler, Options(**options), self._result_type)


class JobDecorator:
    """`forge.job`, and what `forge.job(…)` returns. The overloads take the context out of the
    arguments that `enqueue` wants."""

    def __init__(
        self, register: Callable[..., JobFunction[..., Any, ..., Any]], **options: Any
    ) -> None:
        self._register = register
        self._options = options

    @overload
    def __call__(
        self, call: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> JobFunction[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, call: Callable[P, Coroutine[Any, Any, R]], /
    ) -> JobFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, call: Callable[Concatenate[Context, P], R], /
    ) -> JobFunction[P, R, Concatenate[Context, P], R]: ...
    @overload
    def __call__(self, call: Callable[P, R], /) -> JobFunction[P, R, P, R]: ...
    @overload
    def __call__(self, **options: Unpack[HandlerOptions]) -> "JobDecorator": ...
    def __call__(self, call: Any = None, **options: Any) -> Any:
        known = tuple(HandlerOptions.__annotations__)
        for name in options:
            if name not in known:
                raise rules.unknown("job()", name, known)
        if call is None:
            return JobDecorator(self._register, **self._options, **options)
        if isinstance(call, type):
            raise Invalid(
                "job()", f"is given the class {call.__name__}", "add job classes with @forge.add"
            )
        if not callable(call):
            raise Invalid(
                "job()",
                f"is given {call!r} by position",
                "name what it is, as in @forge.job(queue=…)",
            )
        return self._register(call, **self._options, **options)


def _result_type(call: Callable[..., Any]) -> Any:
    """What `result` gives back, by the handler's annotation."""
    try:
        found = get_type_hints(call).get("return", Any)
    except NameError:
        return Any
    parts = get_args(found) if get_origin(found) in (Union, UnionType) else (found,)
    # verdicts are no results
    values = [
        part for part in parts if not (inspect.isclass(part) and issubclass(part, BaseException))
    ]
    if not values:
        return Any
    wanted: Any = Any
    try:
        wanted = functools.reduce(operator.or_, values)
        msgspec.json.Decoder(wanted)
    except TypeError:
        return Any  # nothing that JSON could be checked against
    except NameError:
        pass  # one of its fields has a type that is defined further down
    return wanted
