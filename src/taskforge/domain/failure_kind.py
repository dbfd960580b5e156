"""What makes two failures alike: the job type, the error's type, and its message without what
differs from one job to the next."""

import hashlib
import re
from functools import lru_cache
from uuid import UUID

from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.job import ErrorInfo

READ_CHARACTERS = 1_000
"""So much of a message is looked at."""
MOST_CHARACTERS = 300
"""So long is what remains of it."""

# Messages are written by others, so each alternative takes time in proportion to what it looks at:
# what repeats is possessive (`++`) or bounded, and begins only where the one before it has ended.
_VARYING = re.compile(
    r"""
      (?P<text>"[^"\n]*+" | `[^`\n]*+` | “[^“”\n]*+” | «[^«»\n]*+» | (?<!\w)'[^'\n]*+'(?!\w))
    | (?P<url>(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{1,15}+://[^\s"'`<>]*+)
    | (?P<email>(?<![\w.+-])[\w.+-]{1,64}+@[\w.-]++)
    | (?P<uuid>(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z]))
    | (?P<time>(?<!\d)\d{4}-\d\d-\d\d
        (?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9}+)?+)?+(?:Z|[+-]\d\d:?\d\d)?+)?+(?!\d)
      | (?<![\d:])\d\d:\d\d:\d\d(?:[.,]\d{1,9}+)?+(?![\d:]))
    | (?P<address>(?<![\d.])\d{1,3}+(?:\.\d{1,3}+){3}(?::\d{1,5}+)?+(?!\d|\.\d)
      | (?<![\w:.])\[?(?:[0-9A-Fa-f]{0,4}+:){2,7}+[0-9A-Fa-f]{0,4}+(?:\]:\d{1,5}+|\])?+(?![\w:]))
    | (?P<path>(?<![\w./\\~:-])(?:[A-Za-z]:[\\/]|~?/|\.{1,2}/|\\\\)[^\s"'`<>|,;:()\[\]]++)
    | (?P<hex>\b0[xX][0-9A-Fa-f]++|(?<![0-9A-Za-z])[0-9A-Fa-f]{12,}+(?![0-9A-Za-z]))
    | (?P<id>(?<![^\W_])(?=[^\W\d_]*+\d[^\W\d_]*+\d)[^\W_]{9,}+)
    | (?P<number>\d++(?:\.\d++|,\d{3}(?!\d))*+)
    """,
    re.VERBOSE,
)
# A list is alike however long it is.
_LIST = re.compile(r"(<(?:text|number|id|uuid|hex)>)(?:,[ ]?\1)++")
# What the house itself says of an attempt, where names stand in the message.
_SAID = {"WorkerCrashed": "its worker died or lost its lease while it ran the job"}


def normalise(message: str) -> str:
    """The message with a word in place of each number, id, quoted text, path, address and time."""
    marked = _VARYING.sub(_word, message[:READ_CHARACTERS])
    return " ".join(_LIST.sub(r"\1, …", marked).split())[:MOST_CHARACTERS]


def _word(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"


def message_of(error_type: str, message: str) -> str:
    """What a group of failures is called, beside its types."""
    return _SAID.get(error_type) or normalise(message)


def kind_of(error: ErrorInfo) -> bytes:
    """16 bytes that are the same for errors that are alike."""
    return _kind(error.type, error.message[:READ_CHARACTERS])


@lru_cache(maxsize=256)  # most failures of a while are the same
def _kind(error_type: str, message: str) -> bytes:
    alike = f"{error_type}\n{message_of(error_type, message)}"
    return hashlib.sha256(alike.encode()).digest()[:16]


def group_of(project: int, job_type: str, kind: bytes) -> UUID:
    """The group's id. PostgreSQL computes it too: `failure_of` of its migrations."""
    return uuid_from_bytes(hashlib.sha256(f"{project} {job_type} ".encode() + kind).digest()[:16])


def rest_of(project: int) -> UUID:
    """The id of the group of failures for which a day had no room for one of their own."""
    return group_of(project, "", b"other")
