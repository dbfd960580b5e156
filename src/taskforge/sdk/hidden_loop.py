"""The event loop behind `forge.sync`, in a thread of its own."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CLOSE_SECONDS = 5.0


class HiddenLoop:
    def __init__(self) -> None:
        # By process: after a fork (gunicorn, uwsgi) the parent's thread does not exist in the
        # child, which starts its own.
        self._begun: dict[int, tuple[asyncio.AbstractEventLoop, threading.Thread]] = {}

    @property
    def has_begun(self) -> bool:
        return os.getpid() in self._begun

    def loop(self) -> asyncio.AbstractEventLoop:
        """Begins with the first call."""
        loop, _ = self._begun.get(os.getpid(), (None, None))
        if loop is None:
            # Of threads that come at once one wins. A lock would do that too, but a fork may copy
            # it while it is held.
            made = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_run_and_close, args=(made,), name="taskforge-sync", daemon=True
            )
            loop, _ = self._begun.setdefault(os.getpid(), (made, thread))
            if loop is made:
                thread.start()
            else:
                made.close()
        return loop

    def close(self, close_within: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End it, after this was done in it."""
        loop, thread = self._begun.pop(os.getpid(), (None, None))
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(close_within(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_SECONDS)  # a thread that a handler started may not end


def _run_and_close(loop: asyncio.AbstractEventLoop) -> None:
    # which ends its tasks and threads too
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
