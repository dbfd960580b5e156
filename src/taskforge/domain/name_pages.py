"""Pages of queues, workers and assignments, which may be as many as a project has customers."""

import base64
import binascii
from collections.abc import Sequence
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.query import MAX_PAGE, MOST_IDS

T = TypeVar("T")
FIRST = UUID(int=0)
BEHIND_ALL = "\U0010ffff"  # no name begins with it
MOST_NUMBER = 2**31 - 1


class NamePlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a page ended: projects go by number, what they have by name, and workers of one name by
    incarnation."""

    project: int
    name: str = ""
    last: UUID = FIRST


class NamePage(msgspec.Struct, frozen=True, kw_only=True):
    """So many of the queues or workers whose names fit, by project and name. In a name `*` stands
    for any letters: `mail*` begins so, `*mail*` has it somewhere; None fits every name."""

    name: str | None = None
    limit: int = 100
    cursor: str | None = None

    @property
    def begins(self) -> str:
        """What each name begins with."""
        return "" if self.name is None else self.name.split("*", 1)[0]

    @property
    def fits_by_beginning(self) -> bool:
        return self.name is None or self.name[len(self.begins) :] == "*"

    def place(self) -> NamePlace:
        return NamePlace(0) if self.cursor is None else _read(self.cursor, NamePlace)


class AssignmentPlace(msgspec.Struct, frozen=True, array_like=True):
    project: int = 0
    queue: int = 0
    worker: UUID = FIRST


class AssignmentPage(msgspec.Struct, frozen=True, kw_only=True):
    """So many of the assignments of these queues, of these workers, or of all where none is
    named."""

    queues: tuple[UUID, ...] = ()
    workers: tuple[UUID, ...] = ()
    limit: int = 100
    cursor: str | None = None

    def place(self) -> AssignmentPlace:
        return AssignmentPlace() if self.cursor is None else _read(self.cursor, AssignmentPlace)


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """Part of a list. One with a cursor may be short, or empty; only one without is the last."""

    items: list[T]
    cursor: str | None = None


def check_name_page(page: NamePage) -> None:
    rules.integer("limit", page.limit, 1, MAX_PAGE)
    if page.name is not None:
        rules.text("name", page.name, most=200)
    page.place()


def check_assignment_page(page: AssignmentPage) -> None:
    rules.integer("limit", page.limit, 1, MAX_PAGE)
    for field, ids in (("queue_id", page.queues), ("worker_id", page.workers)):
        if len(ids) > MOST_IDS:
            raise Invalid(
                field, f"is given {len(ids):,} times", f"ask for at most {MOST_IDS} at once"
            )
    page.place()


def cursor_at_place(place: NamePlace | AssignmentPlace) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


P = TypeVar("P", NamePlace, AssignmentPlace)


def _read(cursor: str, kind: type[P]) -> P:
    try:
        place = msgspec.json.decode(
            base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=kind
        )
        _check_place(place)
    except (ValueError, binascii.Error):
        raise Invalid(
            "cursor",
            "is not one that a listing returned",
            "pass the cursor of the page before, unchanged",
        ) from None
    return place


def _check_place(place: NamePlace | AssignmentPlace) -> None:
    """What a store's columns hold: a cursor that somebody made up is no fault of the store's."""
    for number in (place.project, getattr(place, "queue", 0)):
        rules.integer("cursor", number, 0, MOST_NUMBER)
    rules.text("cursor", getattr(place, "name", ""), least=0, most=200)


def projects_from(projects: Sequence[int], first: int) -> list[int]:
    """In the order in which their pages come, from this one on."""
    return sorted({project for project in projects if project >= first})
