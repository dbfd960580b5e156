"""What the code of an application declares: queues, handlers, schedules, and what is put around
handlers."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.sdk.declared import Declared, DeclaredQueues
from taskforge.sdk.job_classes import Job, handler_of
from taskforge.sdk.options import Options
from taskforge.sdk.schedules import build
from taskforge.worker.handler_calls import FailureHook, Middleware
from taskforge.worker.registry import Handler, Registry

J = TypeVar("J", bound=type[Job])
S = TypeVar("S")


class Declarations:
    """The part of an app that needs no store: made at import, brought to the store when the app
    first uses it."""

    def __init__(self) -> None:
        self.registry = Registry()
        self._declared = DeclaredQueues()
        self.middlewares: list[Middleware] = []
        self.failure_hooks: list[FailureHook] = []

    def queue(
        self,
        name: str,
        *,
        description: str | None = None,
        priority: int | None = None,
        dead_letter_queue: str | None = None,
        **settings: Any,
    ) -> None:
        """Declare a queue: made, or brought to these settings, when the app next uses its store.
        Settings not named stay."""
        self._declared.add(Declared(name, description, priority, dead_letter_queue, settings))

    def add(self, kind: J) -> J:
        """Register a job class; also usable as a decorator."""
        self._add(handler_of(kind), kind.aliases)
        return kind

    def _add(self, handler: Handler, aliases: tuple[str, ...]) -> None:
        Options().build(handler, b"{}")  # what its jobs would be refused for is said here
        self.registry.add(handler, aliases)
        self._declared.mention(handler.queue)

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        name: str | None = None,
        payload: Any = UNSET,
        **options: Any,
    ) -> Callable[[S], S]:
        """Run a handler by the clock: `@forge.schedule("0 3 * * *", tz="Asia/Jakarta")` above
        `@forge.job`. Made, or brought to what is said here, when the app next uses its store; named
        like its job type unless `name` says otherwise. `options`: see `schedules.create`."""

        def declare(job: S) -> S:
            handler = getattr(job, "handler", None)
            if not isinstance(handler, Handler):
                raise Invalid(
                    "@forge.schedule", "is not above a handler", "put it above @forge.job"
                )
            timing = options if cron is None else {"cron": cron, **options}
            new = build(name or handler.job_type, job, payload, timing)
            handler.decode(bytes(new.job.payload))  # what it could not take is said here
            self._declared.add_schedule(new)
            return job

        return declare

    def own_schedules(self, owner: str) -> None:
        """Mark the schedules that the code declares as this application's; those of its that are
        gone from the code are removed when it connects."""
        self._declared.schedules.owner = rules.text("owner", owner, most=100)

    def middleware(self, layer: Middleware) -> Middleware:
        """Wrap every handler: `async def layer(ctx, call): … await call() …`. The first one added
        is the outermost."""
        self.middlewares.append(layer)
        return layer

    def on_failure(self, hook: FailureHook) -> FailureHook:
        """Call `hook(ctx, error)`, a plain or an async function, whenever a handler raises: for
        Sentry and the like.

        From a handler of `kind="process"` the error is a `RemoteError`: `.name` of its type,
        `.message`, `.frames` (its traceback).
        """
        self.failure_hooks.append(hook)
        return hook
