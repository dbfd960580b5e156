"""What the API's document says of the worker protocol's fields beyond their types. The rules that
refuse are the domain's and the worker desk's."""

from taskforge.api.schema.kinds_of_bounds import Bound, number, one_of, text
from taskforge.domain.circuit import MOST_DEPENDENCIES
from taskforge.domain.custom_value import MOST_NAMES as MOST_VALUES
from taskforge.domain.custom_value import MOST_VALUE
from taskforge.domain.job import MAX_ERROR_CHARACTERS
from taskforge.domain.log import MAX_MESSAGE, Level
from taskforge.domain.rules import MAX_SECONDS
from taskforge.domain.worker import MOST_NAMES, WORKER_TYPES
from taskforge.domain.worker_protocol import (
    MAX_METADATA_BYTES,
    MOST_AT_ONCE,
    MOST_WAIT_SECONDS,
)

_NAMES = {"maxItems": MOST_NAMES, "items": {"type": "string"} | text(100)}
_MANY = {"maxItems": MOST_AT_ONCE}
_LEASE = number(0.5, 3_600)
_SECONDS = number(0, MAX_SECONDS)
_REASON = {"description": "What is longer than 1,000 characters is cut"}

FIELDS: dict[str, dict[str, Bound]] = {
    "Register": {
        "name": text(100),
        "queues": _NAMES | {"description": "null: all but dead letter queues"},
        "types": _NAMES | {"description": "null: every type"},
        "max_concurrent_jobs": number(1, 1_000),
        "capabilities": {"description": "At most 10,000 bytes as JSON; see `requires` of a job"},
        "worker_type": one_of(WORKER_TYPES),
        "role": text(100),
        "version": text(100, 0),
        "host": text(255, 0),
        "pid": number(0, 2**31 - 1),
        "machine": text(100, 0),
        "pid_started": text(100, 0),
        "depends_on": {
            "description": "What each of its types cannot do without, by type: "
            f"at most {MOST_DEPENDENCIES} names of up to 100 characters"
        },
        "lease_seconds": _LEASE,
    },
    "Heartbeat": {
        "cpu_percent": number(0, 1_000_000)
        | {"description": "Of one core: more than 100 is usual"},
        "memory_bytes": number(0, 2**62),
        "healthy": {"description": "false: it gets no more jobs until it says true"},
        "stuck_slots": number(0, 1_000),
        "lease_seconds": _LEASE,
    },
    "ClaimBody": {
        "limit": number(0, MOST_AT_ONCE),
        "wait_seconds": number(0, MOST_WAIT_SECONDS),
        "reporting": number(0, 1_000_000),
    },
    "CompleteBody": {"outcomes": _MANY},
    "WireCompletion": {"ran_seconds": _SECONDS},
    "WireTimeout": {"seconds": _SECONDS},
    "WireHeartbeatMissed": {"seconds": _SECONDS},
    "WireRetry": {"seconds": _SECONDS},
    "WireSnooze": {"seconds": _SECONDS, "reason": _REASON},
    "WireCancel": {"reason": _REASON},
    "WireSkip": {"reason": _REASON},
    "WireHandBack": {"reason": _REASON},
    "ErrorInfo": {
        "type": {"description": "Such as ValueError; 200 characters are kept"},
        "message": {"description": f"{MAX_ERROR_CHARACTERS:,} characters are kept"},
        "traceback": {"description": f"The last {MAX_ERROR_CHARACTERS:,} characters are kept"},
    },
    "BeatsBody": {"beats": _MANY},
    "WireBeat": {
        "started_seconds_ago": _SECONDS,
        "progress": number(0, 1),
        "message": _REASON,
    },
    "CountBody": {"values": _MANY},
    "CustomSum": {
        "job_type": text(100),
        "name": text(100) | {"description": f"{MOST_VALUES} of a job type are told apart"},
        "count": number(1, 1_000_000_000),
        "total": number(-1e24, 1e24),
        "least": number(-MOST_VALUE, MOST_VALUE),
        "most": number(-MOST_VALUE, MOST_VALUE),
        "last": number(-MOST_VALUE, MOST_VALUE),
        "seconds_ago": _SECONDS,
    },
    "LinesBody": {"lines": _MANY},
    "WireLine": {
        "level": one_of(level.name.lower() for level in Level),
        "message": {
            "description": f"What is longer than {MAX_MESSAGE:,} characters becomes several lines"
        },
        "metadata": {"description": f"Any JSON of at most {MAX_METADATA_BYTES:,} bytes"},
        "seconds_ago": _SECONDS,
    },
}
