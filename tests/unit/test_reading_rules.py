"""Pages and filters, log lines, and what a worker is: the small rules that have no file of their
own."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.errors import Invalid
from taskforge.domain.ids import IdMint
from taskforge.domain.job import JobStatus
from taskforge.domain.log import MAX_MESSAGE, Level, NewLine, split
from taskforge.domain.query import JobFilter, Page, check_filter, check_page, cursor_at
from taskforge.domain.worker import (
    NewWorker,
    UpdateWorker,
    Worker,
    WorkerStatus,
    check_worker,
    status_of,
)

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - the mistake under test


@given(st.integers(0, (1 << 48) - 1))
def test_a_cursor_comes_back_as_the_id_it_was_made_of(now: int) -> None:
    job = IdMint(lambda: now)()
    assert Page(cursor=cursor_at(job)).before() == job


@pytest.mark.parametrize("cursor", ["", "x", "!!!", "AAAA", cursor_at(UUID(int=5)), "é" * 22])
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid) as caught:
        Page(cursor=cursor).before()
    assert caught.value.field == "cursor"


@pytest.mark.parametrize(
    ("field", "page"),
    [
        ("limit", Page(limit=0)),
        ("limit", Page(limit=1_001)),
        ("offset", Page(offset=-1)),
        ("offset", Page(offset=5, cursor=cursor_at(UUID(int=0)))),
    ],
)
def test_pages_are_bounded(field: str, page: Page) -> None:
    with pytest.raises(Invalid) as caught:
        check_page(page)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("created_after", JobFilter(created_after=NAIVE)),
        ("created_before", JobFilter(created_before=NAIVE)),
        ("scheduled_after", JobFilter(scheduled_after=NAIVE)),
        ("scheduled_before", JobFilter(scheduled_before=NAIVE)),
        ("priority", JobFilter(priorities=(10,))),
    ],
)
def test_filters_name_what_is_wrong(field: str, wanted: JobFilter) -> None:
    with pytest.raises(Invalid) as caught:
        check_filter(wanted)
    assert caught.value.field == field


def test_creation_times_become_an_id_range() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    low, high = JobFilter(created_after=moment, statuses=(JobStatus.FAILED,)).id_range()
    assert low is not None
    assert low.int >> 80 == int(moment.timestamp() * 1000)
    assert high is None


FENCE = UUID(int=1)


@given(st.text(max_size=40), st.integers(1, 3))
def test_splitting_loses_nothing_and_keeps_every_piece_within_bounds(text: str, times: int) -> None:
    message = text * (times * MAX_MESSAGE // max(1, len(text)) + times)
    pieces = split(NewLine(FENCE, Level.INFO, message, b"{}", 2.0))
    assert all(1 <= len(piece.message) <= MAX_MESSAGE for piece in pieces)
    assert [piece.metadata for piece in pieces] == [b"{}"] + [None] * (len(pieces) - 1)
    assert {(piece.fence, piece.level, piece.seconds_ago) for piece in pieces} == {
        (FENCE, Level.INFO, 2.0)
    }
    if message:
        assert len("".join(piece.message for piece in pieces)) == len(message)


def test_an_empty_line_keeps_its_place_and_what_no_store_takes_is_replaced() -> None:
    assert [piece.message for piece in split(NewLine(FENCE, Level.INFO, ""))] == [" "]
    assert split(NewLine(FENCE, Level.INFO, "a\x00b"))[0].message == "a\N{SYMBOL FOR NULL}b"
    assert split(NewLine(FENCE, Level.INFO, "a\ud800b"))[0].message == "a?b"


NOW = datetime(2030, 1, 1, tzinfo=UTC)
ONLINE, OFFLINE, DRAINING, UNHEALTHY = (
    WorkerStatus.ONLINE,
    WorkerStatus.OFFLINE,
    WorkerStatus.DRAINING,
    WorkerStatus.UNHEALTHY,
)


def seen(silent: float | None, lease: float = 15, **known: Any) -> Worker:
    """A worker that was last heard of so many seconds ago, and has a lease since."""
    heard = None if silent is None else NOW - timedelta(seconds=silent)
    shape: dict[str, Any] = dict.fromkeys(Worker.__struct_fields__[:-6])
    shape |= {
        "drain_mode": False,
        "lease_until": (heard or NOW) + timedelta(seconds=lease),
        "last_heartbeat": heard,
    }
    return Worker(**shape | known)


@pytest.mark.parametrize(
    ("worker", "timeout", "expected"),
    [
        (seen(None), None, OFFLINE),
        (seen(0), None, ONLINE),
        (seen(10), None, ONLINE),
        (seen(10.1), None, UNHEALTHY),
        (seen(14.9), None, UNHEALTHY),
        (seen(15), None, OFFLINE),
        (seen(21, lease=30), None, UNHEALTHY),
        (seen(21, lease=30), 25, ONLINE),
        (seen(5.1), 5, UNHEALTHY),
        (seen(20), 25, OFFLINE),
        (seen(0, healthy=False), None, UNHEALTHY),
        (seen(0, stuck_slots=1), None, UNHEALTHY),
        (seen(0, drain_mode=True), None, DRAINING),
        (seen(0, stopping=True), None, DRAINING),
        (seen(0, drain_mode=True, healthy=False), None, UNHEALTHY),
        (seen(16, drain_mode=True), None, OFFLINE),
    ],
)
def test_what_a_worker_is(worker: Worker, timeout: float | None, expected: WorkerStatus) -> None:
    assert status_of(worker, NOW, timeout) is expected


@pytest.mark.parametrize(
    ("worker", "timeout", "expected"),
    [
        (seen(3), None, True),
        (seen(3), 2, False),
        (seen(12), None, False),
        (seen(12), 13, True),
        (seen(20), 60, False),
        (seen(None), 60, False),
        (seen(3, healthy=False), 60, False),
        (seen(3, drain_mode=True), None, True),
    ],
)
def test_who_is_healthy_by_whose_bound(
    worker: Worker, timeout: float | None, expected: bool
) -> None:
    assert worker.judged(NOW, None).is_healthy(NOW, timeout) is expected


@pytest.mark.parametrize(
    ("field", "worker"),
    [
        ("name", NewWorker(name="")),
        ("name", UpdateWorker(worker=FENCE, name="n" * 101)),
        ("worker_type", NewWorker(name="w", worker_type="special")),
        ("max_concurrent_jobs", NewWorker(name="w", max_concurrent_jobs=0)),
        ("max_concurrent_jobs", UpdateWorker(worker=FENCE, max_concurrent_jobs=1001)),
        ("capabilities", NewWorker(name="w", capabilities=["gpu"])),  # type: ignore[arg-type]
        ("capabilities.gb", UpdateWorker(worker=FENCE, capabilities={"gb": float("nan")})),
        ("role", NewWorker(name="w", role="")),
    ],
)
def test_worker_rules_name_their_field(field: str, worker: NewWorker | UpdateWorker) -> None:
    with pytest.raises(Invalid) as caught:
        check_worker(worker)
    assert caught.value.field == field
