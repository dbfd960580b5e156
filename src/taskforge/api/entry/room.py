"""How many bytes of bodies a server holds at once. Each body is bounded; many of them at once are
not, and each takes a few times its bytes until it is answered."""

from taskforge.api.entry.problems import Full

MOST_BYTES = 128 * 2**20
# Small bodies are most of what comes, and are bounded by the number of connections.
FREE_BYTES = 64 * 1024
WAIT_SECONDS = 2


class BodyRoom:
    """Half of it is the most that one address holds: nobody can take it all."""

    def __init__(self, most: int = MOST_BYTES) -> None:
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


class BodyPlace:
    """The part of the room that one request takes, until it is answered."""

    __slots__ = ("_address", "_came", "_held", "_room")

    def __init__(self, room: BodyRoom, address: str) -> None:
        self._room = room
        self._address = address
        self._came = 0
        self._held = 0

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

    def release(self) -> None:
        if self._held:
            self._room.give_back(self._address, self._held)
            self._held = 0
