"""Passwords: argon2id in a thread, two at a time, and as long for an unknown user as for a known
one."""

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

# OWASP's floor for argon2id: 19 MiB, two passes. Two at a time bounds what a flood of logins can
# take.
MEMORY_KIB, PASSES, AT_ONCE = 19 * 1024, 2, 2


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._nobody = self._hasher.hash("a password that nobody has")

    async def hash(self, password: str) -> str:
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def fits(self, stored: str | None, password: str) -> bool:
        """`stored` of None is a user who does not exist, or has no password yet; the answer takes
        as long."""
        async with self._turn:
            return await asyncio.to_thread(self._verify, stored, password)

    def _verify(self, stored: str | None, password: str) -> bool:
        try:
            self._hasher.verify(stored or self._nobody, password)
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None
