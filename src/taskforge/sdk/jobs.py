"""Jobs as Python sees them: decorated functions, and classes whose fields are the payload."""

import enum
import functools
import inspect
import operator
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.job import Alike, NewJob, check_tags, new_job
from taskforge.sdk.handles import JobHandle
from taskforge.worker.context import Context
from taskforge.worker.registry import Handler

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge

P = ParamSpec("P")  # what `enqueue` takes
R = TypeVar("R")  # what `result` gives
Q = ParamSpec("Q")  # what the function itself takes, the context too
C = TypeVar("C")  # what calling it returns


class Priority(enum.IntEnum):
    """Names for the levels most people need; any number from 0 to 9 will do."""

    LOW = 2
    NORMAL = 5
    HIGH = 7
    CRITICAL = 9


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How one job is enqueued, beyond its arguments."""

    queue: str | None = None
    priority: int | None = None
    at: Any = None
    delay: Any = None
    deadline: Any = None
    expires: Any = None
    unique: str | None = None
    idempotency_key: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    tags: tuple[str, ...] = ()
    requires: Mapping[str, Any] | None = None
    trace: str | None = None

    def build(self, handler: Handler, payload: bytes) -> NewJob:
        if self.at is not None and self.delay is not None:
            raise Invalid("delay", "is given together with at", "use one of them")
        job = new_job(
            self.queue or handler.queue,
            handler.job_type,
            priority=handler.priority if self.priority is None else int(self.priority),
            max_attempts=handler.max_attempts if self.max_attempts is None else self.max_attempts,
            at=self.at if self.delay is None else self.delay,
            deadline=self.deadline,
            expires=self.expires,
            timeout_seconds=handler.timeout if self.timeout is None else self.timeout,
            tags=(*check_tags(handler.tags), *check_tags(self.tags)),
            requires=self.requires or handler.requires,
            unique_key=self.unique,
            idempotency_key=self.idempotency_key,
            trace=self.trace,
        )
        return msgspec.structs.replace(job, payload=payload)


class Enqueuer(Generic[P, R]):
    """A handler with options: what `enqueue` is called on."""

    def __init__(self, forge: "TaskForge", handler: Handler, options: Options, result_type: Any) -> None:
        self._forge = forge
        self.handler = handler
        self._options = options
        self._result_type = result_type
        self._template: NewJob | None = None  # all but the payload, checked once for all jobs with these options
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
        inserted = await self._forge.insert(self.build(*args, **kwargs))
        return JobHandle(self._forge, inserted.job, inserted.existed, self._result_type)

    async def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[JobHandle[R]]:
        """One job for each tuple of positional or mapping of named arguments, all in one go."""
        given = list(calls)
        if not given:
            return []
        if all([type(one) is tuple for one in given]):  # noqa: C419 - twice as fast as a generator
            payloads = self.handler.encode_many(cast("list[tuple[Any, ...]]", given))
        else:
            encode = self.handler.encode
            payloads = [encode((), one) if isinstance(one, Mapping) else encode(_positions(one), {}) for one in given]
        answers = await self._forge.insert_many(Alike(self._with(payloads[0]), payloads))
        forge, result_type = self._forge, self._result_type
        return [JobHandle(forge, one.job, one.existed, result_type) for one in answers]


def _positions(given: Any) -> tuple[Any, ...]:
    if isinstance(given, str | bytes | bytearray) or not isinstance(given, Iterable):
        raise Invalid(
            "calls", f"has {given!r} where the arguments of a job belong", "use a tuple or a mapping for each job, as [(1,)]"
        )
    return tuple(given)


class JobFunction(Enqueuer[P, R], Generic[P, R, Q, C]):
    """A decorated handler. Calling it runs the function here and now; `enqueue` has a worker run it."""

    def __init__(self, forge: "TaskForge", handler: Handler) -> None:
        super().__init__(forge, handler, Options(), _result_type(handler.call))
        self.__wrapped__ = handler.call
        self.__name__ = getattr(handler.call, "__name__", handler.job_type)
        self.__doc__ = handler.call.__doc__
        self.__module__ = handler.call.__module__

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> C:
        return self.handler.call(*args, **kwargs)  # type: ignore[no-any-return]

    def options(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        at: Any = None,
        delay: Any = None,
        deadline: Any = None,
        expires: Any = None,
        unique: str | None = None,
        idempotency_key: str | None = None,
        max_attempts: int | None = None,
        timeout: float | None = None,
        tags: tuple[str, ...] = (),
        requires: Mapping[str, Any] | None = None,
        trace: str | None = None,
    ) -> Enqueuer[P, R]:
        """The same handler with other options for the next enqueue: `await send.options(delay=60).enqueue(…)`."""
        chosen = Options(
            queue=queue,
            priority=priority,
            at=at,
            delay=delay,
            deadline=deadline,
            expires=expires,
            unique=unique,
            idempotency_key=idempotency_key,
            max_attempts=max_attempts,
            timeout=timeout,
            tags=tags,
            requires=requires,
            trace=trace,
        )
        return Enqueuer(self._forge, self.handler, chosen, self._result_type)


class HandlerOptions(TypedDict, total=False):
    """What `forge.job` takes: how the function is run, and how its jobs are enqueued unless `options` says otherwise."""

    queue: str
    job_type: str | None
    kind: str | None
    priority: int
    max_attempts: int | None
    timeout: float | None
    tags: tuple[str, ...]
    requires: Mapping[str, Any] | None
    aliases: tuple[str, ...]


class JobDecorator:
    """`forge.job`, and what `forge.job(…)` returns. The overloads take the context out of the arguments that `enqueue` wants."""

    def __init__(self, register: Callable[..., JobFunction[..., Any, ..., Any]], **options: Any) -> None:
        self._register = register
        self._options = options

    @overload
    def __call__(
        self, call: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> JobFunction[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, call: Callable[P, Coroutine[Any, Any, R]], /) -> JobFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, call: Callable[Concatenate[Context, P], R], /) -> JobFunction[P, R, Concatenate[Context, P], R]: ...
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
            raise Invalid("job()", f"is given the class {call.__name__}", "add job classes with @forge.add")
        if not callable(call):
            raise Invalid("job()", f"is given {call!r} by position", "name what it is, as in @forge.job(queue=…)")
        return self._register(call, **self._options, **options)


class _ByName(msgspec.StructMeta):
    """Fields are given by name, those of subclasses too: they may stand in any order."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        return super().__new__(cls, name, bases, namespace, **{"kw_only": True, **config})


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Job(msgspec.Struct, metaclass=_ByName):
    """A job as a class: its fields are the payload, `execute` is the handler. What has no type is a setting, not a field.

    class Replicate(Job):
        queue = "storage"
        source: str
        target: str

        async def execute(self, ctx: Context) -> int: ...
    """

    job_type: ClassVar[str] = ""
    queue: ClassVar[str] = "default"
    priority: ClassVar[int] = 0
    max_attempts: ClassVar[int | None] = None
    max_retries: ClassVar[int | None] = None  # the same, the first attempt not counted
    timeout: ClassVar[float | None] = None
    tags: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()  # job types it had before

    async def execute(self, ctx: Context) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no execute method")


def handler_of(kind: type[Job]) -> Handler:
    """The handler behind a job class."""
    _check_class(kind)
    decoder = msgspec.json.Decoder(kind)

    async def execute(ctx: Context, **_: Any) -> Any:
        return await decoder.decode(ctx.job.payload).execute(ctx)

    execute.__module__, execute.__qualname__ = kind.__module__, f"{kind.__qualname__}.execute"
    return ClassHandler(kind, execute)


def _check_class(kind: type[Job]) -> None:
    """Refuse here what could be enqueued but never run, or not as it reads."""
    for field in kind.__struct_fields__:
        if hasattr(Job, field):
            expected = f"write `{field} = …` without a type to set it, or give the field of the payload another name"
            raise Invalid(
                f"{kind.__name__}.{field}", "has a type, which makes a field of what is a setting of job classes", expected
            )
    name, execute = f"{kind.__name__}.execute", kind.execute
    if execute is Job.execute:
        raise Invalid(name, "is missing", "write `async def execute(self, ctx: Context)`")
    if not inspect.iscoroutinefunction(inspect.unwrap(execute)):
        raise Invalid(name, "is a plain function", "write `async def execute`, with what blocks in `await asyncio.to_thread(…)`")
    try:
        inspect.signature(execute).bind(kind, Context)
    except TypeError as error:
        raise Invalid(name, f"cannot be called with the context alone ({error})", "take `self, ctx: Context`") from None
    if kind.max_attempts is not None and kind.max_retries is not None:
        raise Invalid(f"{kind.__name__}.max_retries", "is given together with max_attempts", "use one of them")


class ClassHandler(Handler):
    def __init__(self, kind: type[Job], call: Callable[..., Any]) -> None:
        name = kind.job_type or kind.__name__
        attempts = kind.max_attempts if kind.max_retries is None else kind.max_retries + 1
        super().__init__(
            _bare(call),
            job_type=name,
            queue=kind.queue,
            priority=int(kind.priority),
            max_attempts=attempts,
            timeout=kind.timeout,
            tags=kind.tags,
        )
        self.call = call
        self.takes_context = True
        self.arguments = kind
        self._checker = msgspec.json.Decoder(kind)

    def encode_instance(self, job: Job) -> bytes:
        payload = msgspec.json.encode(job)
        self._check(payload)
        return payload

    def decode(self, payload: bytes) -> tuple[Any, ...]:
        self._check(payload)
        return ()

    def _check(self, payload: bytes) -> None:
        try:
            self._checker.decode(payload)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise Invalid(f"{self.job_type}()", str(error), "use fields of the types the job class declares") from None


def _bare(call: Callable[..., Any]) -> Callable[..., Any]:
    async def bare(ctx: Context) -> Any:
        return await call(ctx)

    return bare


def _result_type(call: Callable[..., Any]) -> Any:
    """What `result` gives back, by the handler's annotation."""
    try:
        found = get_type_hints(call).get("return", Any)
    except NameError:
        return Any
    parts = get_args(found) if get_origin(found) in (Union, UnionType) else (found,)
    values = [part for part in parts if not (inspect.isclass(part) and issubclass(part, BaseException))]  # verdicts are no results
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
