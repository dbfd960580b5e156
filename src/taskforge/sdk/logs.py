"""The log of an application's process, as the command line writes its own."""

import logging
from typing import TextIO

from taskforge.domain import rules
from taskforge.settings import LOG_FORMATS, Settings
from taskforge.telemetry.logs import start_logging
from taskforge.worker.log_fields import log_fields


def configure_logging(
    log_format: str | None = None,
    *,
    project: str | None = None,
    level: int = logging.INFO,
    stream: TextIO | None = None,
) -> None:
    """Log to standard error as text or JSON, unless logging is set up already; lines that a handler
    writes carry the ids of its job. None: as the settings say. `project`: told in every line."""
    chosen = Settings.load().log_format if log_format is None else log_format
    start_logging(
        rules.choice("log_format", chosen, LOG_FORMATS),
        fields=log_fields,
        standing=None if project is None else {"project": project},
        level=level,
        stream=stream,
    )
