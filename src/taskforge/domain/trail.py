"""What the audit log says of each change: its target, and what was before and after. Payloads never
appear in it."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.alike import Alike
from taskforge.domain.assignment import Assignment
from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed
from taskforge.domain.job import JobStatus, NewJob
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker

MOST_NAMED = 20
QUEUE_FIELDS = ("name", "description", "priority", "settings", "is_active")
ASSIGNMENT_FIELDS = ("weight", "is_active")
WORKER_FIELDS = ("name", "max_concurrent_jobs", "capabilities", "drain_mode")


class Entry(msgspec.Struct, frozen=True):
    """One row of the log but for its time; `before` and `after` as JSON."""

    organization: int | None
    project: int | None
    actor: str
    action: str
    target: str
    before: str | None
    after: str | None
    origin: str | None
    request: str | None


def queue_changed(note: Note, before: Queue | None, after: Queue) -> Entry:
    old, new = _differences(QUEUE_FIELDS, before, after if after.deleted_at is None else None)
    return _entry(note, after.project, f"queue {after.name} ({after.id})", old, new)


def worker_changed(note: Note, before: Worker | None, after: Worker) -> Entry:
    old, new = _differences(WORKER_FIELDS, before, after)
    return _entry(note, after.project, f"worker {after.name} ({after.id})", old, new)


def worker_left(note: Note, project: int, name: str, identity: UUID) -> Entry:
    return _entry(note, project, f"worker {name} ({identity})", None, None)


def assignment_changed(
    note: Note, queue: Queue, worker: str, before: Assignment | None, after: Assignment | None
) -> Entry:
    assignment = after or before
    assert assignment is not None
    old, new = _differences(ASSIGNMENT_FIELDS, before, after)
    target = f"queue {queue.name} ({queue.id}), worker {worker} ({assignment.worker})"
    return _entry(note, assignment.project, target, old, new)


def jobs_changed(note: Note, changed: Sequence[tuple[int, JobStatus, Changed]]) -> Entry | None:
    """Of the project, the status before and the answer of each job that really changed."""
    if not changed:
        return None
    projects = {project for project, _, _ in changed}
    project = projects.pop() if len(projects) == 1 else None
    if len(changed) == 1:
        [(_, status, answer)] = changed
        return _entry(
            note,
            project,
            f"job {answer.job}",
            {"status": status},
            {"status": answer.status, "note": answer.note},
        )
    first = [answer.job for _, _, answer in changed[:MOST_NAMED]]
    return _entry(
        note, project, f"{len(changed)} jobs", None, {"changed": len(changed), "first": first}
    )


def jobs_inserted(jobs: Iterable[tuple[int, NewJob, UUID]]) -> list[Entry]:
    """An entry for each note that jobs carry, given those that were really stored with their
    projects and ids."""
    stored = list(jobs)
    note = stored[0][1].note if stored else None
    if (
        note is not None
        and len(stored) > 1
        and not any([job.note is not note for _, job, _ in stored])  # noqa: C419 - quicker
    ):
        return [_many(note, stored[0][0], len(stored))]
    noted: dict[tuple[int, int], list[tuple[NewJob, UUID]]] = {}
    for project, job, identifier in stored:
        if job.note is not None:
            noted.setdefault((project, id(job.note)), []).append((job, identifier))
    entries = []
    for (project, _), group in noted.items():
        job, identifier = group[0]
        assert job.note is not None
        if len(group) == 1:
            entry = _entry(
                job.note,
                project,
                f"job {identifier}",
                None,
                {"queue": job.queue, "job_type": job.job_type},
            )
        else:
            entry = _many(job.note, project, len(group))
        entries.append(entry)
    return entries


def alike_inserted(project: int, jobs: Alike, first: UUID) -> list[Entry]:
    """The same for jobs that share their note; `first` is the id of the first."""
    note = jobs.template.note
    if note is None:
        return []
    return (
        [_many(note, project, len(jobs))]
        if len(jobs) > 1
        else jobs_inserted([(project, jobs[0], first)])
    )


def _many(note: Note, project: int, count: int) -> Entry:
    return _entry(note, project, f"{count} jobs", None, {"jobs": count})


def _entry(note: Note, project: int | None, target: str, before: Any, after: Any) -> Entry:
    old, new = (
        None if value is None else msgspec.json.encode(value).decode() for value in (before, after)
    )
    return Entry(
        note.organization,
        project,
        note.actor,
        note.action,
        target,
        old,
        new,
        note.origin,
        note.request,
    )


def _differences(
    names: Sequence[str], before: Any, after: Any
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The fields that differ, as they were and as they are; all of them when there was nothing, or
    is nothing any more."""
    both = before is not None and after is not None
    different = [
        name for name in names if not both or getattr(before, name) != getattr(after, name)
    ]
    old, new = (
        None if one is None else {name: getattr(one, name) for name in different}
        for one in (before, after)
    )
    return old, new
