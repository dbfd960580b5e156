"""Jobs that the pool's tests hand in, and a clock that does not keep them waiting."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from tests.support.virtual_time import run


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def wrapped(*arguments: Any, **options: Any) -> None:
        run(test(*arguments, **options))

    return wrapped


async def double(value: int) -> int:
    return value * 2


async def fail(value: int) -> int:
    raise ValueError(value)


async def nap(seconds: float, value: Any = None) -> Any:
    await asyncio.sleep(seconds)
    return value


class Gate:
    """Jobs that stay where they are until they are let go."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun: list[Any] = []

    async def __call__(self, value: Any = None) -> Any:
        self.begun.append(value)
        await self.open.wait()
        return value


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
