"""The loops of the upkeep live and end together."""

import asyncio
from typing import Any

import pytest

from taskforge.operations.upkeep import Upkeep


class Store:
    """Of an engine only what the upkeep calls; folding fails."""

    def __init__(self) -> None:
        self.staged = 0

    async def stage(self, _: int) -> int:
        self.staged += 1
        return 0

    async def lapsed(self, _: int) -> list[Any]:
        return []

    async def expire(self, _: int) -> int:
        return 0

    async def fold(self, _: int) -> int:
        raise RuntimeError("no such table")

    async def prune(self, *_: object) -> Any:
        await asyncio.sleep(60)


async def test_a_loop_that_fails_takes_the_others_with_it() -> None:
    store = Store()
    with pytest.raises(RuntimeError, match="no such table"):
        await Upkeep(store, interval=0.01).run()  # type: ignore[arg-type]
    before = store.staged
    await asyncio.sleep(0.1)
    assert store.staged == before
