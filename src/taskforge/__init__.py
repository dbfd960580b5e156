"""TaskForge: a durable job platform on SQLite or PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taskforge.version import __version__

if TYPE_CHECKING:
    from taskforge.domain.errors import (
        Conflict,
        Invalid,
        NotFound,
        RemoteError,
        StoreUnavailable,
        TaskForgeError,
    )
    from taskforge.sdk.app import TaskForge
    from taskforge.sdk.handles import JobCancelled, JobDeadLettered, JobFailed, JobHandle
    from taskforge.sdk.job_classes import Job
    from taskforge.sdk.logs import configure_logging
    from taskforge.sdk.manager import CustomWorker, IncomingJob, WorkerManager
    from taskforge.sdk.options import Priority
    from taskforge.sdk.webhooks import verify_webhook
    from taskforge.worker.context import Context, current_context
    from taskforge.worker.verdicts import Cancel, Fail, Retry, Skip, Snooze

# Loaded when first asked for: `taskforge --help` and a bare `import taskforge` stay quick.
_WHERE = {
    "Cancel": "taskforge.worker.verdicts",
    "Conflict": "taskforge.domain.errors",
    "Context": "taskforge.worker.context",
    "CustomWorker": "taskforge.sdk.manager",
    "Fail": "taskforge.worker.verdicts",
    "IncomingJob": "taskforge.sdk.manager",
    "Invalid": "taskforge.domain.errors",
    "Job": "taskforge.sdk.job_classes",
    "JobCancelled": "taskforge.sdk.handles",
    "JobDeadLettered": "taskforge.sdk.handles",
    "JobFailed": "taskforge.sdk.handles",
    "JobHandle": "taskforge.sdk.handles",
    "NotFound": "taskforge.domain.errors",
    "Priority": "taskforge.sdk.options",
    "RemoteError": "taskforge.domain.errors",
    "Retry": "taskforge.worker.verdicts",
    "Skip": "taskforge.worker.verdicts",
    "Snooze": "taskforge.worker.verdicts",
    "StoreUnavailable": "taskforge.domain.errors",
    "TaskForge": "taskforge.sdk.app",
    "TaskForgeError": "taskforge.domain.errors",
    "WorkerManager": "taskforge.sdk.manager",
    "configure_logging": "taskforge.sdk.logs",
    "current_context": "taskforge.worker.context",
    "verify_webhook": "taskforge.sdk.webhooks",
}

__all__ = [
    "Cancel",
    "Conflict",
    "Context",
    "CustomWorker",
    "Fail",
    "IncomingJob",
    "Invalid",
    "Job",
    "JobCancelled",
    "JobDeadLettered",
    "JobFailed",
    "JobHandle",
    "NotFound",
    "Priority",
    "RemoteError",
    "Retry",
    "Skip",
    "Snooze",
    "StoreUnavailable",
    "TaskForge",
    "TaskForgeError",
    "WorkerManager",
    "__version__",
    "configure_logging",
    "current_context",
    "verify_webhook",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'taskforge' has no attribute {name!r}")


def __dir__() -> list[str]:
    """For whoever looks around in a shell."""
    return __all__
