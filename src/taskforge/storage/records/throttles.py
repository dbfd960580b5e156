"""Tries within a window, such as failed logins of an account or an address."""

from datetime import timedelta

import msgspec

from taskforge.ports.records import Records, Step
from taskforge.storage.records.rows import first


class _Tries(msgspec.Struct, frozen=True):
    count: int


class Throttles:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def count_try(self, key: str, window_seconds: float) -> int:
        """Count one more try within the window; returns how many there were before it."""
        now = await self._records.now()
        begun = now - timedelta(seconds=window_seconds)
        answers = await self._records.write(
            [
                Step("count_try", (key, now, begun)),
                Step("remove_old_throttles", (begun - timedelta(hours=1),)),
            ]
        )
        return int(answers[0][0][0]) - 1

    async def tries(self, key: str, window_seconds: float) -> int:
        """How many tries there were within the window, without counting one."""
        begun = await self._records.now() - timedelta(seconds=window_seconds)
        found = first(await self._records.look(_Tries, "throttle", key, begun))
        return 0 if found is None else found.count

    async def take_back(self, key: str) -> None:
        """As if the last try had not been counted."""
        await self._records.write([Step("take_back_try", (key,))])

    async def forgive(self, key: str) -> None:
        await self._records.write([Step("remove_throttle", (key,))])
