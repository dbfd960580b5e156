"""What a store knows of its own health."""

from typing import Protocol

from taskforge.domain.finding import Finding


class Examination(Protocol):
    async def examine(self) -> list[Finding]: ...
