"""Pages and filters, log lines, and what a worker is: the small rules that have no file of their own."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.errors import Invalid
from taskforge.domain.ids import IdMint
from taskforge.domain.job import JobStatus
from taskforge.domain.log import MAX_MESSAGE, Level, NewLine, split
from taskforge.domain.query import JobFilter, Page, check_filter, check_page, cursor_at
from taskforge.domain.worker import NewWorker, UpdateWorker, WorkerStatus, check_worker, status_of

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
        ("priority", JobFilter(priority=10)),
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
    assert {(piece.fence, piece.level, piece.seconds_ago) for piece in pieces} == {(FENCE, Level.INFO, 2.0)}
    if message:
        assert len("".join(piece.message for piece in pieces)) == len(message)


def test_an_empty_line_keeps_its_place_and_what_no_store_takes_is_replaced() -> None:
    assert [piece.message for piece in split(NewLine(FENCE, Level.INFO, ""))] == [" "]
    assert split(NewLine(FENCE, Level.INFO, "a\x00b"))[0].message == "a\N{SYMBOL FOR NULL}b"
    assert split(NewLine(FENCE, Level.INFO, "a\ud800b"))[0].message == "a?b"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ((False, True, 0, True, False, 0), WorkerStatus.OFFLINE),
        ((True, False, 0, True, False, 0), WorkerStatus.OFFLINE),
        ((True, True, 0, True, False, 0), WorkerStatus.ONLINE),
        ((True, True, 30, True, False, 0), WorkerStatus.ONLINE),
        ((True, True, 31, True, False, 0), WorkerStatus.UNHEALTHY),
        ((True, True, 0, False, False, 0), WorkerStatus.UNHEALTHY),
        ((True, True, 0, True, True, 1), WorkerStatus.DRAINING),
        ((True, True, 0, True, True, 0), WorkerStatus.OFFLINE),
        ((True, True, 0, False, True, 1), WorkerStatus.UNHEALTHY),
        ((True, False, 99, False, True, 1), WorkerStatus.OFFLINE),
    ],
)
def test_what_a_worker_is(known: tuple[bool, bool, float, bool, bool, int], expected: WorkerStatus) -> None:
    heard, lease_alive, silent, healthy, drain, active = known
    status = status_of(
        heard=heard,
        lease_alive=lease_alive,
        silent_seconds=silent,
        timeout_seconds=30,
        healthy=healthy,
        drain=drain,
        active=active,
    )
    assert status is expected


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
