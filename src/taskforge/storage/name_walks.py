"""How a page of queues or workers is found: project by project in the order of names, in bounded
stretches. What a page costs is bounded, whatever there is of them and however few fit."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from taskforge.domain.name_pages import (
    BEHIND_ALL,
    Listed,
    NamePage,
    NamePlace,
    check_name_page,
    cursor_at_place,
    projects_from,
)

T = TypeVar("T")
ROWS = 10_000  # that one page looks at, at most
PROJECT = 50  # what a look at a project counts for, even where it has none


class NameStretch(msgspec.Struct, frozen=True):
    """What one statement walks, and how many it returns of those that fit."""

    project: int
    behind: str
    behind_last: UUID
    least: str
    below: str
    rows: int
    most: int


class NameWalk(Generic[T]):
    def __init__(
        self, projects: Sequence[int], page: NamePage, place_of: Callable[[T], NamePlace]
    ) -> None:
        check_name_page(page)
        self._page = page
        self._place_of = place_of
        self._start = page.place()
        self._projects = projects_from(projects, self._start.project)
        self._items: list[T] = []
        self._walked = 0
        self._place: NamePlace | None = None  # where the page ended, with more behind it

    def stretches(self) -> Iterator[NameStretch]:
        """Whoever walks one passes what it found to `take` before the next."""
        budget = ROWS
        begins = self._page.begins
        for project in self._projects:
            if budget <= 0:
                self._place = NamePlace(project)
            if self._place is not None:
                return
            missing = self._page.limit - len(self._items)
            start = self._start if project == self._start.project else NamePlace(project)
            rows = min(missing, budget) if self._page.fits_by_beginning else budget
            yield NameStretch(
                project, start.name, start.last, begins, begins + BEHIND_ALL, rows, missing
            )
            budget -= max(PROJECT, self._walked)

    def take(
        self, stretch: NameStretch, items: Sequence[T], walked: int, stopped: NamePlace
    ) -> None:
        """`stopped`: the last of the rows that were walked."""
        self._walked = walked
        self._items += items
        if len(items) >= stretch.most:
            self._place = self._place_of(items[-1])
        elif walked >= stretch.rows:
            self._place = stopped

    def slice(self) -> Listed[T]:
        return Listed(self._items, None if self._place is None else cursor_at_place(self._place))
