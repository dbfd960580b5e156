"""How a handler is called: on the event loop, in a thread, or in a process of its own; inside its
middleware; and what is told of its failure."""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from taskforge.domain.outcome import Outcome
from taskforge.worker.context import Context, Running, context_of
from taskforge.worker.handler_outcomes import outcome_of_error
from taskforge.worker.processes.children import Children
from taskforge.worker.registry import Handler
from taskforge.worker.slots import MOST_SLOTS
from taskforge.worker.stuck import Stuck

logger = logging.getLogger("taskforge.worker")

Middleware = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
FailureHook = Callable[[Context, BaseException], Any]
HOOK_SECONDS = 10.0


class HandlerCalls:
    def __init__(
        self,
        middleware: Sequence[Middleware],
        failure_hooks: Sequence[FailureHook],
        stuck: Stuck,
        on_freed: Callable[[], None],
    ) -> None:
        self.middleware = tuple(middleware)
        self._failure_hooks = tuple(failure_hooks)
        self._stuck = stuck
        self._on_freed = on_freed
        self._threads: ThreadPoolExecutor | None = None
        self._closing = False
        self.children = Children()

    def call(
        self, running: Running, handler: Handler, arguments: tuple[Any, ...]
    ) -> Awaitable[Any]:
        """No coroutine of its own: this is once for each job."""
        if self.middleware:
            return self._through(running, handler, arguments)
        return self._invoke(running, handler, arguments)

    def _invoke(
        self, running: Running, handler: Handler, arguments: tuple[Any, ...]
    ) -> Awaitable[Any]:
        if handler.kind != "async":
            return self._outside(running, handler, arguments)
        coroutine: Awaitable[Any] = (
            handler.invoke(context_of(running), *arguments)
            if handler.takes_context
            else handler.invoke(*arguments)
        )
        return coroutine

    async def _through(self, running: Running, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        """Through every layer of the middleware, the first one outermost."""
        context = context_of(running)

        async def innermost() -> Any:
            return await self._invoke(running, handler, arguments)

        step: Callable[[], Awaitable[Any]] = innermost
        for layer in reversed(self.middleware):
            step = partial(layer, context, step)
        return await step()

    async def _outside(self, running: Running, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        """Plain functions: in a thread, or in a process of their own that can be killed."""
        if handler.kind == "process":
            return await self.children.run(running, handler)
        if self._threads is None:
            # As many as there may ever be slots: threads are made as they are needed, and slots are
            # counted elsewhere.
            self._threads = ThreadPoolExecutor(MOST_SLOTS, thread_name_prefix="taskforge")
        call = contextvars.copy_context().run
        arguments = (context_of(running), *arguments) if handler.takes_context else arguments
        future = asyncio.get_running_loop().run_in_executor(
            self._threads, call, _in_thread, handler.invoke, *arguments
        )
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.done():
                # A thread cannot be killed: the job is reported, but the slot stays taken until the
                # thread ends.
                self._linger(future, running)
            raise

    def _linger(self, future: asyncio.Future[Any], running: Running) -> None:
        self._stuck.add(running)

        def ended(done: asyncio.Future[Any]) -> None:
            self._stuck.remove(running)
            self._on_freed()
            if not done.cancelled():
                done.exception()  # seen: the job was reported long ago

        future.add_done_callback(ended)

    async def failed(self, running: Running, error: BaseException) -> Outcome:
        """What a handler's exception comes to, once the failure hooks have seen it."""
        for hook in self._failure_hooks:
            try:
                answer = hook(context_of(running), error)
                if inspect.isawaitable(answer):
                    async with asyncio.timeout(HOOK_SECONDS):
                        await answer
            except asyncio.CancelledError:
                if self._closing:
                    raise
                logger.warning("a failure hook was stopped: the job's time was over")
            except Exception:
                logger.exception("a failure hook failed")
        return outcome_of_error(error)

    def end(self) -> None:
        """From now on a cancel ends whatever it strikes."""
        self._closing = True

    async def close(self) -> None:
        await self.children.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _in_thread(invoke: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return invoke(*arguments)
    except (StopIteration, KeyboardInterrupt, GeneratorExit) as error:
        # No future can carry the first, and the others would end the event loop; none of them means
        # here what it means there.
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
