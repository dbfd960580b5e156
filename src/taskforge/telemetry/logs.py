"""How the lines of a process's log look."""

import logging
import sys
from typing import TextIO

from taskforge.domain.visible import make_visible

LINE = "%(asctime)s %(levelname)-7s %(name)s  %(message)s"


class VisibleFormatter(logging.Formatter):
    """Log lines repeat what jobs and callers said; nothing in them steers a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return make_visible(super().format(record))


def start_logging(stream: TextIO | None = None) -> None:
    """Log to standard error, unless the application has set up its own logging."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(VisibleFormatter(LINE))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
