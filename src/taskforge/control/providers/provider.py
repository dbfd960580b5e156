"""What the autoscaler asks of whoever starts and stops workers.

A leader may die in the middle of any call, and the next one repeats it, so every promise here is
about the state that is reached and not about a step:

- `scale_up` names the number that was wanted before. The caller writes both numbers down before it
  calls; said again after a crash, `above + count` are wanted already and nothing is added.
- `stop` is about one worker. Said again, or about a worker that is gone, it changes nothing, and
  never costs another worker. It may return before the worker is gone. A worker that is still there
  some time later is to be stopped again.

The caller bounds nothing: each provider ends every call within its own `timeout_seconds`, and
raises `ProviderFailed` for whatever the other side did wrong. Another exception is a fault of ours.
"""

from typing import Any, Protocol, Self
from uuid import UUID

import msgspec

from taskforge.domain.errors import TaskForgeError
from taskforge.domain.worker import Worker


class Fleet(msgspec.Struct, frozen=True):
    wanted: int  # what the provider has been told to have
    running: int | None = None  # what it says is up; None: it does not say


class Departing(msgspec.Struct, frozen=True, kw_only=True):
    """The worker to stop. It has been drained and is empty."""

    worker_id: UUID
    name: str
    host: str = ""
    pid: int | None = None
    capabilities: dict[str, Any] = {}

    @classmethod
    def of(cls, worker: Worker) -> Self:
        return cls(
            worker_id=worker.id,
            name=worker.name,
            host=worker.host,
            pid=worker.pid,
            capabilities=worker.capabilities,
        )


class ProviderFailed(TaskForgeError):
    """The provider did not do what it was asked, for a reason that is no fault of ours: who refused
    what, and what would help. `retry_after` is how many seconds it wishes to be left alone; None:
    it does not say."""

    def __init__(self, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Provider(Protocol):
    async def current(self) -> Fleet: ...

    async def scale_up(self, count: int, *, above: int) -> None:
        """So that at least `count` more than `above` are wanted; `above` is what `current` said
        before. Never fewer than are wanted now."""
        ...

    async def stop(self, worker: Departing) -> None: ...

    async def close(self) -> None: ...
