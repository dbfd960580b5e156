"""What came of a change of many jobs, or would come of it."""

import msgspec


class Progress(msgspec.Struct, frozen=True):
    """How far a bulk change is."""

    changed: int
    refused: int
    cursor: str | None = None  # of what is behind; None: all of it was changed


class DryRun(msgspec.Struct, frozen=True):
    """What would come of a bulk change, as things stand."""

    changed: int
    refused: int
    more: bool  # there are more, or may be
