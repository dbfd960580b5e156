"""What a supervisor tells the processes that it starts, and what they tell it: that they were
ready, that they finished a job, that they left in order. An exit status alone does not say that: a
handler can end its process with any."""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping, Sequence

import msgspec

VARIABLE = "_TASKFORGE_SUPERVISOR"
READY = b"r"
FINISHED = b"f"  # at least one job
LEFT = b"l"
READ_BYTES = 64


class Supervision(msgspec.Struct, frozen=True):
    """What a process knows of its supervisor."""

    supervisor: int
    pipe: int
    # Whether the supervisor has had a process that was ready: the store is the right one then, and
    # away only for a while.
    was_ready: bool
    number: int  # of the process among those that it keeps, from 0 on

    def tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self.pipe, word)


def take_supervision() -> Supervision | None:
    """That of this process; None if nobody supervises it. Nothing that it starts inherits it."""
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return None
    supervision = msgspec.json.decode(text, type=Supervision)
    with contextlib.suppress(OSError):
        os.set_inheritable(supervision.pipe, False)
    return supervision


class SupervisedProcess:
    """The supervisor's view of one process."""

    def __init__(self, process: asyncio.subprocess.Process, pipe: int) -> None:
        self._process = process
        self._pipe = pipe
        self._started = time.monotonic()
        self._said = b""
        self.pid = process.pid

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        was_ready: bool,
        number: int,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
    ) -> "SupervisedProcess":
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        supervision = Supervision(os.getpid(), writing, was_ready, number)
        try:
            # A session of its own: a Ctrl-C in the terminal reaches the supervisor alone, which
            # passes it on in order.
            process = await asyncio.create_subprocess_exec(
                *command,
                start_new_session=True,
                pass_fds=(writing,),
                cwd=directory,
                env=os.environ
                | dict(environment or {})
                | {VARIABLE: msgspec.json.encode(supervision).decode()},
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return cls(process, reading)

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def wait(self) -> int:
        """Its exit status, once it has ended and all that it said is heard."""
        status = await self._process.wait()
        self._hear()
        os.close(self._pipe)
        self._pipe = -1
        return status

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def was_ready(self) -> bool:
        self._hear()
        return READY in self._said

    @property
    def has_finished_jobs(self) -> bool:
        self._hear()
        return FINISHED in self._said

    @property
    def has_left(self) -> bool:
        self._hear()
        return LEFT in self._said

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._pipe >= 0 and (word := os.read(self._pipe, READ_BYTES)):
                self._said += word
