"""How the lines of a process's log look: text for people, JSON for what collects logs."""

import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from taskforge.domain.visible import make_json_visible, make_visible
from taskforge.telemetry.redaction import redact, redact_value

LINE = "%(asctime)s %(levelname)-7s %(name)s  %(message)s"
# the attribute of a record that was made outside the job it tells of
FIELDS = "taskforge_fields"
LogFields = Callable[[], Mapping[str, str]]
_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", FIELDS}


class VisibleFormatter(logging.Formatter):
    """Log lines repeat what jobs and callers said; nothing in them steers a terminal, or tells a
    secret."""

    def format(self, record: logging.LogRecord) -> str:
        return make_visible(redact(super().format(record)))


class JsonFormatter(logging.Formatter):
    """One object a line: what every record has, what is known of the job it belongs to, what the
    caller gave as `extra`, and an exception as fields."""

    def __init__(self, fields: LogFields, standing: Mapping[str, str]) -> None:
        super().__init__()
        self._fields = fields
        self._standing = standing

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **self._standing,
            **self._fields(),
            **getattr(record, FIELDS, {}),
        }
        for name, value in vars(record).items():
            if name not in _KNOWN:
                line.setdefault(name, redact_value(name, value))
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["exception"] = {
                "type": type(error).__name__,
                "message": redact(str(error)),
                "traceback": redact(self.formatException(record.exc_info)),
            }
        return make_json_visible(msgspec.json.encode(line).decode())


def _nothing() -> Mapping[str, str]:
    return {}


def start_logging(
    log_format: str = "text",
    *,
    fields: LogFields = _nothing,
    standing: Mapping[str, str] | None = None,
    level: int = logging.INFO,
    stream: TextIO | None = None,
) -> None:
    """Log to standard error, unless the application has set up its own logging; once more changes
    how the lines look. `fields` says what is known of the job that is logged for, `standing` what
    is alike in all lines."""
    formatter = (
        JsonFormatter(fields, standing or {}) if log_format == "json" else VisibleFormatter(LINE)
    )
    for ours in logging.getLogger().handlers:
        if isinstance(ours.formatter, VisibleFormatter | JsonFormatter):
            ours.setFormatter(formatter)
            return
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler])
