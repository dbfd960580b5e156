"""A leader's service that does one thing again and again, for as long as the term lasts, and says
how it fares."""

import asyncio
from collections.abc import Awaitable, Callable

from taskforge.control.leader import Term
from taskforge.services import Periodic, ServiceHealth

Act = Callable[[Term], Awaitable[bool]]


class Rounds:
    def __init__(self, name: str, act: Act, seconds: float) -> None:
        """`act` returns whether there is more to do at once."""
        self.name = name
        self._act = act
        self._seconds = seconds
        self._rounds: Periodic | None = None

    async def run(self, term: Term) -> None:
        self._rounds = rounds = Periodic(self.name, lambda: self._act(term), seconds=self._seconds)
        rounds.begin()
        while True:
            term.check()
            if not await rounds.run_once():
                await asyncio.sleep(self._seconds)

    def health(self) -> list[ServiceHealth]:
        """Of the last term, if it does not run now."""
        return [] if self._rounds is None else self._rounds.health()
