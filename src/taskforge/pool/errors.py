"""What a pool says when it will not, or can no longer, run a job."""

from taskforge.domain.errors import TaskForgeError


class PoolClosed(TaskForgeError):
    """The pool is stopping or was never started; it takes no jobs."""


class PoolFull(TaskForgeError):
    """The buffer is full and the pool was told to reject what does not fit."""


class Dropped(TaskForgeError):
    """The job was accepted, but newer or more urgent ones pushed it out of a full buffer before it
    could start."""


class LimiterFull(TaskForgeError):
    """More callers wait for the limiter than it was told to hold."""


class WorkerDied(TaskForgeError):
    """The process that ran the job ended under it: killed, out of memory, a crash in native
    code."""
