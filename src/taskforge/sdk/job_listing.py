"""Which jobs an application means, and the walk over them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import UUID

from taskforge.domain import rules
from taskforge.domain.decoded import DecodedJob, decode_job
from taskforge.domain.errors import Invalid
from taskforge.domain.job import JobStatus
from taskforge.domain.job_page import next_page
from taskforge.domain.query import JobFilter, Page, check_filter, check_page

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class JobSelection(TypedDict, total=False):
    """Every field narrows; of several values in one field a job has one. Times are from `after` up
    to, not including, `before`."""

    queue: UUID | str | Sequence[UUID | str]
    status: str | Sequence[str]
    job_type: str | Sequence[str]
    priority: int | Sequence[int]
    tag: str | Sequence[str]
    created_after: datetime
    created_before: datetime
    scheduled_after: datetime
    scheduled_before: datetime
    failure_group: UUID | str


def filter_of(selection: JobSelection) -> JobFilter:
    """What to ask a store for."""
    known = JobSelection.__annotations__
    for name in selection:
        rules.choice("filter", name, tuple(known))
    statuses = tuple(status.value for status in JobStatus)
    wanted = JobFilter(
        queues=tuple(str(queue) for queue in _values(selection.get("queue"))),
        statuses=tuple(
            JobStatus(rules.choice("status", one, statuses))
            for one in _values(selection.get("status"))
        ),
        job_types=_values(selection.get("job_type")),
        priorities=_values(selection.get("priority")),
        tags=_values(selection.get("tag")),
        created_after=selection.get("created_after"),
        created_before=selection.get("created_before"),
        scheduled_after=selection.get("scheduled_after"),
        scheduled_before=selection.get("scheduled_before"),
        failure_group=_group(selection.get("failure_group")),
    )
    check_filter(wanted)
    for name, value in selection.items():
        if isinstance(value, list | tuple | set | frozenset) and not value:
            raise Invalid(name, "is empty, which no job matches", "leave it out, or name a value")
    return wanted


class JobListing:
    """Jobs, newest first, read page by page as they are asked for: `async for`, or `for` in code
    that is not async."""

    def __init__(self, app: "TaskForge", wanted: JobFilter, page: Page) -> None:
        check_page(page)
        self._app = app
        self._wanted = wanted
        self._page = page

    async def __aiter__(self) -> AsyncIterator[DecodedJob]:
        following: Page | None = self._page
        while following is not None:
            jobs, following = await self._read(following)
            for job in jobs:
                yield job

    def __iter__(self) -> Iterator[DecodedJob]:
        following: Page | None = self._page
        while following is not None:
            jobs, following = self._app.sync(self._read(following))
            yield from jobs

    async def _read(self, page: Page) -> tuple[list[DecodedJob], Page | None]:
        engine = await self._app.engine()
        found = await engine.list_jobs([engine.home], self._wanted, page)
        return [decode_job(job) for job in found.jobs], next_page(page, found)


def _group(given: UUID | str | None) -> UUID | None:
    if given is None or isinstance(given, UUID):
        return given
    try:
        return UUID(given)
    except (ValueError, TypeError, AttributeError):
        expected = "use one that `forge.failures.list()` returned"
        raise Invalid("failure_group", f"is {given!r}, not the id of a group", expected) from None


def _values(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    if isinstance(given, str | UUID | int):
        return (given,)
    return tuple(given)
