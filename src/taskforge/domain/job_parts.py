"""The parts of a job that may be large: readers get them only when they ask."""

import enum


class JobPart(enum.StrEnum):
    """What a list leaves out unless it is asked for."""

    PAYLOAD = "payload"
    RESULT = "result"


Parts = frozenset[JobPart]
WHOLE: Parts = frozenset(JobPart)
BRIEF: Parts = frozenset()
