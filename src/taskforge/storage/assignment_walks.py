"""How a page of assignments is found: those of queues or workers that are named by one statement,
all others project by project."""

from collections.abc import Iterator, Sequence

from taskforge.domain.assignment import Assignment
from taskforge.domain.name_pages import (
    AssignmentPage,
    AssignmentPlace,
    Listed,
    check_assignment_page,
    cursor_at_place,
    projects_from,
)

PROJECTS = 100  # that one page looks at, at most
Found = tuple[Assignment | None, AssignmentPlace]
"""None: to a queue that was deleted"""


class AssignmentWalk:
    def __init__(self, projects: Sequence[int], page: AssignmentPage) -> None:
        check_assignment_page(page)
        self.start = page.place()
        self._limit = page.limit
        self._projects = projects_from(projects, self.start.project)
        self._found: list[Found] = []
        self._stopped: AssignmentPlace | None = None

    def stretches(self) -> Iterator[tuple[AssignmentPlace, int]]:
        """Behind what, and how many. What is found is passed to `take` before the next."""
        for number, project in enumerate(self._projects):
            missing = self._limit - len(self._found)
            if missing <= 0:
                return
            if number >= PROJECTS:
                self._stopped = AssignmentPlace(project)
                return
            yield (
                self.start if project == self.start.project else AssignmentPlace(project),
                missing,
            )

    def take(self, found: Sequence[Found]) -> None:
        self._found += found
        if found and len(self._found) >= self._limit:
            self._stopped = self._found[-1][1]

    def slice(self) -> Listed[Assignment]:
        return Listed(
            [assignment for assignment, _ in self._found if assignment is not None],
            None if self._stopped is None else cursor_at_place(self._stopped),
        )
