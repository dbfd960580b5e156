"""When a start can be foretold, and when not."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.eligibility import Hindrance
from taskforge.domain.explain import explain
from taskforge.domain.explanation import MOST_AHEAD, PlaceInLine, Rate
from taskforge.domain.job import JobStatus, StoredJob, error_info
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.worker import Worker, WorkerStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def queue(**settings: Any) -> Queue:
    return Queue(
        id=UUID(int=1),
        number=1,
        project=1,
        name="mail",
        description="",
        priority=0,
        settings=QueueSettings.parse(settings),
        is_active=True,
        version=1,
        created_at=NOW,
        updated_at=NOW,
    )


def job(status: JobStatus = JobStatus.PENDING, **facts: Any) -> StoredJob:
    return StoredJob(
        id=UUID(int=2),
        project=1,
        queue="mail",
        queue_id=UUID(int=1),
        job_type="send",
        status=status,
        priority=0,
        attempt_count=0,
        max_attempts=3,
        epoch=0,
        crash_count=0,
        payload=None,
        created_at=NOW,
        updated_at=NOW,
        **facts,
    )


WORKER = Worker(
    id=UUID(int=3),
    incarnation=UUID(int=4),
    project=1,
    name="anna",
    worker_type="general",
    role=None,
    status=WorkerStatus.ONLINE,
    capabilities={},
    queues=None,
    types=None,
    max_concurrent_jobs=1,
    drain_mode=False,
    active_jobs=0,
    version="",
    host="",
    pid=None,
    cpu_percent=None,
    memory_bytes=None,
    lease_until=NOW + timedelta(seconds=10),
    last_heartbeat=NOW,
    registered_at=NOW,
    updated_at=NOW,
)


@pytest.mark.parametrize(
    ("settings", "standing", "seconds"),
    [
        ({}, PlaceInLine(), 0),
        ({}, PlaceInLine(ready_seconds=11), None),
        ({}, PlaceInLine(ahead=1), None),
        ({}, PlaceInLine(elsewhere=1), None),
        ({"rate_limit": 60}, PlaceInLine(ahead=50, rate=Rate(0.5, 50.5, 1)), 50.5),
        # as many as are gathered: then slots decide
        ({"rate_limit": 60}, PlaceInLine(ahead=50, rate=Rate(0, 0, 1)), None),
        # there may be many more
        ({"rate_limit": 60}, PlaceInLine(ahead=MOST_AHEAD, rate=Rate(0.5, 10_000.5, 1)), None),
        ({"rate_limit": 60}, PlaceInLine(ahead=50, elsewhere=1, rate=Rate(0.5, 50.5, 1)), None),
        (
            {"rate_limit": 60, "max_concurrent_jobs": 5},
            PlaceInLine(ahead=50, rate=Rate(0.5, 50.5, 1)),
            None,
        ),
    ],
)
def test_a_start_is_foretold_only_where_it_follows(
    settings: dict[str, Any], standing: PlaceInLine, seconds: float | None
) -> None:
    found = explain(job(), queue(**settings), [(WORKER, None)], standing, NOW)
    assert found.expected_start == (None if seconds is None else NOW + timedelta(seconds=seconds))


def test_a_scheduled_job_starts_when_it_is_due_unless_its_queue_has_limits() -> None:
    due = NOW + timedelta(seconds=5)
    scheduled = job(JobStatus.SCHEDULED, scheduled_for=due)
    assert explain(scheduled, queue(), [(WORKER, None)], PlaceInLine(), NOW).expected_start == due
    assert (
        explain(scheduled, queue(rate_limit=1), [(WORKER, None)], PlaceInLine(), NOW).expected_start
        is None
    )
    assert explain(scheduled, queue(), [], PlaceInLine(), NOW).expected_start is None


def test_who_would_take_it_is_listed_first_then_who_is_busy_then_the_others() -> None:
    online = [
        (msgspec.structs.replace(WORKER, name=name), hindrance)
        for name, hindrance in (
            ("a", Hindrance.NO_HANDLER),
            ("b", Hindrance.BUSY),
            ("d", None),
            ("c", None),
        )
    ]
    found = explain(job(), queue(), online, PlaceInLine(), NOW)
    assert [one.name for one in found.workers] == ["c", "d", "b", "a"]


def test_what_an_error_says_is_left_out_for_who_may_not_see_payloads() -> None:
    error = error_info("Refused", "card 4111 (it said): it waits for one that\nlies", "")
    failed = job(JobStatus.FAILED, completed_at=NOW, error=error)
    [told] = explain(failed, queue(), [], PlaceInLine(), NOW).without_errors().reasons
    assert told.text == "it has ended: failed 0 ms ago"
    placed = PlaceInLine(misfit_at=NOW, misfit="card (4111): it waits for one that )\n")
    unfit = explain(job(), queue(), [(WORKER, Hindrance.MISFIT)], placed, NOW)
    assert "4111" in unfit.reasons[0].text
    text = unfit.without_errors().reasons[0].text
    assert text.startswith("its arguments fit no worker that is there: it waits for one that they")
