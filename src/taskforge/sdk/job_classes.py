"""Jobs as classes, whose fields are the payload."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

import msgspec

from taskforge.domain.errors import Invalid
from taskforge.worker.context import Context
from taskforge.worker.registry import Handler


class _ByName(msgspec.StructMeta):
    """Fields are given by name, those of subclasses too: they may stand in any order."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> Any:
        return super().__new__(cls, name, bases, namespace, **{"kw_only": True, **config})


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Job(msgspec.Struct, metaclass=_ByName):
    """A job as a class: its fields are the payload, `execute` is the handler. What has no
    type is a setting, not a field.

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
    depends_on: ClassVar[tuple[str, ...]] = ()  # what it cannot do without: each has a circuit

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
            expected = (
                f"write `{field} = …` without a type to set it, or give the field of the "
                f"payload another name"
            )
            raise Invalid(
                f"{kind.__name__}.{field}",
                "has a type, which makes a field of what is a setting of job classes",
                expected,
            )
    name, execute = f"{kind.__name__}.execute", kind.execute
    if execute is Job.execute:
        raise Invalid(name, "is missing", "write `async def execute(self, ctx: Context)`")
    if not inspect.iscoroutinefunction(inspect.unwrap(execute)):
        raise Invalid(
            name,
            "is a plain function",
            "write `async def execute`, with what blocks in `await asyncio.to_thread(…)`",
        )
    try:
        inspect.signature(execute).bind(kind, Context)
    except TypeError as error:
        raise Invalid(
            name, f"cannot be called with the context alone ({error})", "take `self, ctx: Context`"
        ) from None
    if kind.max_attempts is not None and kind.max_retries is not None:
        raise Invalid(
            f"{kind.__name__}.max_retries", "is given together with max_attempts", "use one of them"
        )


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
            depends_on=kind.depends_on,
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
            raise Invalid(
                f"{self.job_type}()", str(error), "use fields of the types the job class declares"
            ) from None


def _bare(call: Callable[..., Any]) -> Callable[..., Any]:
    async def bare(ctx: Context) -> Any:
        return await call(ctx)

    return bare
