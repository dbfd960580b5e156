"""What a store knows of its own health."""

from typing import Protocol

from taskforge.domain.finding import Finding, UpkeepState


class Examination(Protocol):
    async def examine(self) -> list[Finding]: ...
    # How far upkeep is behind, and what holds it up: cheap enough for every minute.
    async def behind(self) -> UpkeepState: ...
