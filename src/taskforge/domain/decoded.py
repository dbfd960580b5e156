"""What applications read of jobs: as it is stored, with values where a store keeps JSON."""

from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.execution import Execution
from taskforge.domain.job import JobFacts, StoredJob
from taskforge.domain.job_page import JobPage
from taskforge.domain.log import Line
from taskforge.domain.schedule import JobTemplate, Schedule


class DecodedJob(JobFacts, frozen=True, kw_only=True):
    """A job as applications see it: `job.result == 5` where its handler returned 5."""

    project: int
    epoch: int
    payload: Any  # None: erased, not for the reader's eyes, or not asked for in a list, as `result`
    result: Any = None
    requires: dict[str, Any] | None = None
    worker: UUID | None = None  # the incarnation that runs it, or ran it last


class DecodedPage(msgspec.Struct, frozen=True):
    """A page of jobs as applications see them."""

    jobs: list[DecodedJob]
    cursor: str | None  # of the page behind; None: that was all


class DecodedExecution(Execution, frozen=True, kw_only=True):
    """A try of a job as applications see it."""

    output: Any = None


class DecodedLine(Line, frozen=True):
    """A line of a log as applications see it."""

    metadata: Any


class DecodedTemplate(JobTemplate, frozen=True, kw_only=True):
    """The job that a schedule makes, as applications see it."""

    payload: Any
    requires: Any = None


class DecodedSchedule(Schedule, frozen=True, kw_only=True):
    """A schedule as applications see it."""

    job: DecodedTemplate


def decode_job(job: StoredJob) -> DecodedJob:
    return DecodedJob(**_fields(job, "payload", "result", "requires"))


def decode_page(page: JobPage) -> DecodedPage:
    return DecodedPage([decode_job(job) for job in page.jobs], page.cursor)


def decode_execution(execution: Execution) -> DecodedExecution:
    return DecodedExecution(**_fields(execution, "output"))


def decode_line(line: Line) -> DecodedLine:
    return DecodedLine(**_fields(line, "metadata"))


def decode_schedule(schedule: Schedule) -> DecodedSchedule:
    fields = _fields(schedule)
    fields["job"] = DecodedTemplate(**_fields(schedule.job, "payload", "requires"))
    return DecodedSchedule(**fields)


def _fields(struct: msgspec.Struct, *written: str) -> dict[str, Any]:
    """The fields of a struct, those that are written in JSON as the values they stand for."""
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    for name in written:
        fields[name] = msgspec.json.decode(fields[name]) if fields[name] else None
    return fields
