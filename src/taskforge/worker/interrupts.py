"""Whose KeyboardInterrupt it is: that of someone who pressed Ctrl-C, or a handler's own."""

import dis
import signal
import threading
from types import CodeType, TracebackType
from typing import Any

_RAISE = dis.opmap["RAISE_VARARGS"]


def is_interrupt(error: KeyboardInterrupt) -> bool:
    """Whether a signal brought it. Where the command line runs a worker none does; in an
    application, asyncio raises it at the second Ctrl-C, and Python's own handler at the first, in
    the middle of whatever runs: also of a handler of jobs."""
    if threading.current_thread() is not threading.main_thread():
        return False
    at = error.__traceback__
    if at is None:
        return False
    while at.tb_next is not None:
        at = at.tb_next
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        # which leaves no frame of its own; but no signal strikes within a raise
        return not _was_raised(at)
    return at.tb_frame.f_code is _code_of(handler)


def _was_raised(at: TracebackType) -> bool:
    return at.tb_frame.f_code.co_code[at.tb_lasti] == _RAISE


def _code_of(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)  # of a partial
    code = getattr(handler, "__code__", None)  # a method has its function's
    return code if isinstance(code, CodeType) else None
