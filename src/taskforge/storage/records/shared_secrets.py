"""What the servers of one store share."""

import msgspec

from taskforge.ports.records import Records, Step


class _Value(msgspec.Struct, frozen=True):
    value: bytes


class SharedSecrets:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def get_or_add(self, name: str, fresh: bytes) -> bytes:
        """The stored one, or `fresh`, stored by whoever comes first."""
        await self.claim(name, fresh)
        return (await self._records.look(_Value, "secret", name))[0].value

    async def claim(self, name: str, value: bytes) -> bool:
        """Whether this process was the first to store it: what must happen once happens there."""
        now = await self._records.now()
        return bool((await self._records.write([Step("add_secret", (name, value, now))]))[0])
