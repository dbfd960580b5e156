"""The trace that a job belongs to, as its field `trace` carries it: a W3C traceparent and, behind a
space, a tracestate. Whoever enqueues by hand may write one; what is no such text is no trace."""

import re

import msgspec

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
MOST_STATE = 512
# An entry of the tracestate: the job is one of many that were enqueued at once, whose traces are
# linked to that instead of being one huge trace.
_BATCH = "taskforge=batch"


class TraceText(msgspec.Struct, frozen=True):
    parent: str  # traceparent
    state: str = ""  # tracestate, without our own entry
    is_batch: bool = False

    @property
    def trace_id(self) -> str:
        return self.parent[3:35]

    @property
    def span_id(self) -> str:
        return self.parent[36:52]

    def write(self) -> str:
        entries = [_BATCH] if self.is_batch else []
        entries += [self.state] if self.state else []
        return f"{self.parent} {','.join(entries)}" if entries else self.parent


def read_trace(text: str | None) -> TraceText | None:
    if text is None:
        return None
    parent, _, state = text.partition(" ")
    return trace_of(parent, state)


def trace_of(parent: str, state: str = "") -> TraceText | None:
    """Of the two headers. A state that is too long or no text of one line is left out."""
    if _PARENT.fullmatch(parent) is None:
        return None
    if len(state) > MOST_STATE or not state.isprintable():
        state = ""
    entries = [entry for part in state.split(",") if (entry := part.strip())]
    own = [entry for entry in entries if entry != _BATCH]
    return TraceText(parent, ",".join(own), len(own) < len(entries))
