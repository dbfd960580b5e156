"""Counts who waits for how much: each that waits holds a connection, and nobody may hold so many
that others find none."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

from taskforge.domain.access import Crowded, Principal
from taskforge.domain.addresses import share_of
from taskforge.domain.tenancy import CeilingReached


class Places:
    def __init__(self, what: str, of_one: int, of_organization: int) -> None:
        self._what = what
        self._of_one = max(1, of_one)
        self._of_organization = max(1, of_organization)
        self._held: Counter[UUID | int] = Counter()

    def take(self, principal: Principal, ceiling: int | None = None) -> Callable[[], None]:
        """A place for as long as the function that comes back is not called; `Crowded` when there
        is none left for this one, `CeilingReached` when its organization has as many as its ceiling
        of streams allows."""
        if ceiling is not None and self._held[principal.organization] >= ceiling:
            raise CeilingReached("streams", ceiling)
        for holder, most, whose in (
            (principal.id, self._of_one, principal.label),
            (
                principal.organization,
                self._of_organization,
                f"the organization of {principal.label}",
            ),
        ):
            if self._held[holder] >= most:
                raise Crowded(
                    f"{whose} has {most:,} {self._what} open on this server, which is the limit; "
                    f"end one first",
                    most,
                )
        holders = (principal.id, principal.organization)
        self._held.update(holders)

        def release() -> None:
            self._held.subtract(holders)
            for holder in holders:
                if not self._held[holder]:
                    del self._held[holder]

        return release


class AddressShares:
    """How many connections, and behind a proxy requests, each address holds: nobody without a
    credential takes them all. Workers have a share of their own, because a fleet behind one address
    is no stranger."""

    def __init__(self, of_address: int, of_workers: int) -> None:
        self.of_address = of_address
        self._of_workers = of_workers
        self._held: Counter[str] = Counter()
        self._workers = 0

    def take(self, address: str) -> "AddressShare | None":
        """A place among those of the address; None when it has no more."""
        name = share_of(address)
        if self._held[name] >= self.of_address:
            return None
        self._held[name] += 1
        return AddressShare(self, name)

    def give_back(self, share: "AddressShare") -> None:
        if share.is_worker:
            self._workers -= 1
        else:
            self._release(share.name)

    def move_to_workers(self, share: "AddressShare") -> bool:
        if self._workers >= self._of_workers:
            return False
        self._workers += 1
        self._release(share.name)
        return True

    def _release(self, name: str) -> None:
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]


class AddressShare:
    """One place. It is given back once, however often that is said."""

    __slots__ = ("_is_held", "_shares", "is_worker", "name")

    def __init__(self, shares: AddressShares, name: str) -> None:
        self._shares = shares
        self.name = name
        self.is_worker = False
        self._is_held = True

    def belongs_to_worker(self) -> None:
        """A worker key was shown on it."""
        if self._is_held and not self.is_worker:
            self.is_worker = self._shares.move_to_workers(self)

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._shares.give_back(self)
