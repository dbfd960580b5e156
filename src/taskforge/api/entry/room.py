"""How many bytes of bodies a server holds at once, and how many of those it works on. Each body is
bounded; many of them at once are not, and each takes a few times its bytes while it is decoded,
stored and answered."""

import asyncio
from collections import deque

from taskforge.api.entry.bodies import LARGE_BYTES
from taskforge.api.entry.problems import Full

MOST_BYTES = 128 * 2**20
# One body of the largest size, or some smaller ones: on SQLite a commit that holds 8 edits of 7 MiB
# keeps everybody waiting for a second.
MOST_AT_WORK_BYTES = 8 * 2**20
# Small bodies are most of what comes, and are bounded by the number of connections.
FREE_BYTES = 64 * 1024
WAIT_SECONDS = 2


class BodyRoom:
    """Half of it is the most that one address holds: nobody can take it all."""

    def __init__(self, most: int = MOST_BYTES, at_work: int = MOST_AT_WORK_BYTES) -> None:
        self.turns = Turns(at_work)
        self._most = most
        self._total = 0
        self._held: dict[str, int] = {}

    def take(self, address: str, size: int) -> bool:
        mine = self._held.get(address, 0) + size
        if mine > self._most // 2 or self._total + size > self._most:
            return False
        self._held[address] = mine
        self._total += size
        return True

    def give_back(self, address: str, size: int) -> None:
        self._total -= size
        self._held[address] -= size
        if not self._held[address]:
            del self._held[address]


class Turns:
    """Large bodies are worked on in the order in which they came, so many bytes at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._at_work = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            self._at_work += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size)
            else:
                self._waiting.remove((size, turn))
                self._call_next()
            raise

    def give_back(self, size: int) -> None:
        self._at_work -= size
        self._call_next()

    def _call_next(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            self._at_work += size
            turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self._at_work or self._at_work + size <= self._most


class BodyPlace:
    """The part of the room that one request takes, until it is answered."""

    __slots__ = ("_address", "_at_work", "_came", "_held", "_room")

    def __init__(self, room: BodyRoom, address: str) -> None:
        self._room = room
        self._address = address
        self._came = 0
        self._held = 0
        self._at_work = 0

    def add(self, size: int) -> None:
        """So many more bytes have come."""
        self._came += size
        more = self._came - FREE_BYTES - self._held
        if more <= 0:
            return
        if not self._room.take(self._address, more):
            raise Full(
                "the bodies that are under way take all the room there is for them; try again soon",
                retry_after=WAIT_SECONDS,
            )
        self._held += more

    async def begin(self) -> None:
        """All of it is there: work begins when it is its turn."""
        if self._came > LARGE_BYTES:
            await self._room.turns.take(self._came)
            self._at_work = self._came

    def end(self) -> None:
        """The work is done; who is slow to take the answer holds up nobody."""
        if self._at_work:
            self._room.turns.give_back(self._at_work)
            self._at_work = 0

    def release(self) -> None:
        self.end()
        if self._held:
            self._room.give_back(self._address, self._held)
            self._held = 0
