"""What workers need: to be known, and to be given jobs."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable
from uuid import UUID

from taskforge.domain.audit import Note
from taskforge.domain.claim import Claim
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import Finish, Lost
from taskforge.domain.worker import NewWorker, Registered, Renewed, Sample


class Leases(Protocol):
    async def register(
        self, project: int, worker: NewWorker, lease_seconds: float
    ) -> Registered: ...
    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed: ...
    # `died`: the worker's process has surely ended, so its lease ends although it holds jobs, which
    # are then rescued as crashed. Said twice, or of a worker that is not known, it changes nothing.
    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None: ...


class StoreLeases(Leases, Protocol):
    """A store also ends a lease for an operator: with a note of it, only if the worker is still as
    the operator saw it (`expected_mark`), only in projects that the operator may touch."""

    async def deregister(
        self,
        incarnation: UUID,
        note: Note | None = None,
        expected_mark: str | None = None,
        *,
        died: bool = False,
        projects: Sequence[int] | None = None,
    ) -> None: ...


@runtime_checkable
class Work(Protocol):
    async def claim(self, claim: Claim) -> list[Claimed]: ...
    async def finish(self, finishes: Sequence[Finish], *, lapsed: bool = False) -> list[Lost]: ...
    async def beat(self, beats: Sequence[Beat]) -> list[Lost]: ...
    async def log(self, lines: Sequence[NewLine]) -> list[Lost]: ...
    # Returns how to stop listening. With a project, only what may be work of that project wakes;
    # nobody has project 0.
    def on_work(
        self, wake: Callable[[], None], project: int | None = None
    ) -> Callable[[], None]: ...
