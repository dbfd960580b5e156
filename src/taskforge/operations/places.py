"""Counts who waits for how much: each that waits holds a connection, and nobody may hold so many that others find none."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

from taskforge.domain.access import Crowded, Principal


class Places:
    def __init__(self, what: str, of_one: int, of_organization: int) -> None:
        self._what = what
        self._of_one = max(1, of_one)
        self._of_organization = max(1, of_organization)
        self._held: Counter[UUID | int] = Counter()

    def take(self, principal: Principal) -> Callable[[], None]:
        """A place for as long as the function that comes back is not called; `Crowded` when there is none left for this one."""
        for holder, most, whose in (
            (principal.id, self._of_one, principal.label),
            (principal.organization, self._of_organization, f"the organization of {principal.label}"),
        ):
            if self._held[holder] >= most:
                raise Crowded(f"{whose} has {most:,} {self._what} open on this server, which is the limit; end one first", most)
        holders = (principal.id, principal.organization)
        self._held.update(holders)

        def release() -> None:
            self._held.subtract(holders)
            for holder in holders:
                if not self._held[holder]:
                    del self._held[holder]

        return release
