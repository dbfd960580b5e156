"""What a worker is told when it is made, and what it says of itself when it registers."""

import os
import socket
from typing import Any
from uuid import uuid4

import msgspec

from taskforge.domain.worker import NewWorker
from taskforge.version import __version__
from taskforge.worker.processes.process_id import this_machine, this_process


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    queues: tuple[str, ...] | None = None
    slots: int = 10
    worker_type: str = "general"
    role: str | None = None
    capabilities: dict[str, Any] = {}
    lease_seconds: float = 15.0
    poll_seconds: float = 1.0
    grace_seconds: float = 25.0
    health_check_seconds: float = 5.0
    max_jobs: int | None = None  # stop after this many; a supervisor starts a fresh process
    # whether someone starts a fresh process when this one ends: it may, when its handlers hang
    supervised: bool = False


def name_of_process() -> str:
    """For a worker that was given no name."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid4().hex[:6]}"


def describe(
    options: WorkerOptions,
    name: str,
    types: tuple[str, ...] | None,
    depends_on: dict[str, tuple[str, ...]],
) -> NewWorker:
    return NewWorker(
        name=name,
        worker_type=options.worker_type,
        role=options.role,
        capabilities=options.capabilities,
        queues=options.queues,
        types=types,
        max_concurrent_jobs=options.slots,
        version=__version__,
        host=socket.gethostname()[:255],
        pid=os.getpid(),
        machine=this_machine(),
        pid_started=this_process().started,
        depends_on=depends_on,
    )
