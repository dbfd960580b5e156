"""Many jobs that differ in their payloads alone."""

from collections.abc import Iterator, Sequence
from typing import overload

import msgspec

from taskforge.domain.job import NewJob

LARGE_CALL = 200
"""So many jobs gain nothing by sharing a statement with other calls, and lose what is known of jobs
that are alike."""


class Alike(Sequence[NewJob]):
    """Jobs that differ in their payloads alone. Engines that know of it store them column by
    column, half of the work."""

    __slots__ = ("payloads", "template")

    def __init__(self, template: NewJob, payloads: Sequence[bytes]) -> None:
        self.template = template
        self.payloads = payloads

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[NewJob]:
        return map(self._with, self.payloads)

    @overload
    def __getitem__(self, index: int) -> NewJob: ...
    @overload
    def __getitem__(self, index: slice) -> "Alike": ...
    def __getitem__(self, index: int | slice) -> "NewJob | Alike":
        if isinstance(index, slice):
            return Alike(self.template, self.payloads[index])
        return self._with(self.payloads[index])

    def longest(self) -> NewJob:
        """If any of them is refused, this one is."""
        return self._with(max(self.payloads, key=len))

    def _with(self, payload: bytes) -> NewJob:
        return msgspec.structs.replace(self.template, payload=payload)
