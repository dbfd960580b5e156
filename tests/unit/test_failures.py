"""What makes failures alike, and what their groups tell: a day's course, whatever the message."""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.errors import Invalid
from taskforge.domain.failure_group import (
    HOURS,
    MOST_QUEUES,
    FailureDelta,
    GroupQuery,
    StoredGroup,
    Trend,
    check_query,
    hour_of,
    trend_of,
)
from taskforge.domain.failure_kind import (
    _LIST,
    _VARYING,
    MOST_CHARACTERS,
    group_of,
    kind_of,
    normalise,
    rest_of,
)
from taskforge.domain.job import error_info

NOW = datetime(2030, 1, 2, 12, 30, tzinfo=UTC)

ALIKE = {
    "connection to <address> refused after <number> s": (
        "connection to 10.0.0.1:5432 refused after 3.5 s",
        "connection to 192.168.100.20 refused after 12 s",
        "connection to [fe80::1]:80 refused after 1,000 s",
        "connection to ::1 refused  after\n7 s",
    ),
    "<text>": ("'user_17'", '"user_18"', "`a b`", "“x”"),
    "[Errno <number>] No such file or directory: <text>": (
        "[Errno 2] No such file or directory: '/tmp/a.txt'",
        "[Errno 3] No such file or directory: 'C:\\b'",
    ),
    "can't open <path> on don't": ("can't open /var/lib/a1 on don't", "can't open ~/b on don't"),
    "GET <url> gave <number>": (
        "GET https://a.example/users/1?x=2 gave 503",
        "GET http://b.example gave 404",
    ),
    "user <uuid> is gone": (
        "user 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone",
        "user 3F2504E0-4F89-11D3-9A0C-0305E82C3302 is gone",
    ),
    "object <hex> at <time>": (
        "object 0x7f8a9b at 2026-01-31T10:00:00.123Z",
        "object deadbeefcafe at 2026-01-31 10:00:00",
        "object 0xF at 23:59:59,5",
    ),
    "charge ch_<id> failed": ("charge ch_3Nabc12345XY failed", "charge ch_9Zabc99345XX failed"),
    "mail to <email> bounced": ("mail to a.b@example.com bounced", "mail to c+d@x.org bounced"),
    "ids <number>, … missing": ("ids 1, 2, 3 missing", "ids 4,5 missing"),
    "std::vector and input/output": ("std::vector and input/output",),
    "": ("", "   \n"),
}


@pytest.mark.parametrize("message", ALIKE)
def test_what_differs_from_job_to_job_is_left_out(message: str) -> None:
    assert {normalise(one) for one in ALIKE[message]} == {message}


def test_what_differs_otherwise_is_another_kind() -> None:
    errors = [
        error_info("ValueError", "no such user 1"),
        error_info("ValueError", "no such account 1"),
        error_info("KeyError", "no such user 1"),
    ]
    kinds = {kind_of(error) for error in errors}
    assert len(kinds) == 3
    assert all(len(kind) == 16 for kind in kinds)
    assert kind_of(error_info("ValueError", "no such user 2", "Traceback")) == kind_of(errors[0])
    died = [error_info("WorkerCrashed", f"worker {name} died") for name in ("a", "b")]
    assert kind_of(died[0]) == kind_of(died[1])
    groups = {group_of(project, "t", kind) for project in (1, 2) for kind in kinds}
    assert len(groups | {group_of(1, "u", kind) for kind in kinds} | {rest_of(1)}) == 10


@given(st.text(max_size=3_000))
def test_any_message_is_bounded_and_stays_as_it_is_a_second_time(message: str) -> None:
    alike = normalise(message)
    assert len(alike) <= MOST_CHARACTERS
    assert "\n" not in alike
    assert len(kind_of(error_info("E", message))) == 16


HOSTILE = (
    "' “ « ` a@ 1. a: : a1 a.b+ [:: <text>, /a 0x \\ 1- a'b' 0 http:// é1 1:1: 12: f 1234- ~/ a_1"
)


@pytest.mark.parametrize("piece", HOSTILE.split())
def test_no_message_takes_more_than_time_in_proportion_to_its_length(piece: str) -> None:
    """Ten times as long takes about ten times as long, and not a hundred times: without the bound
    on what is looked at, to see it."""

    def seconds(count: int) -> float:
        text = piece * count
        best = 1.0
        for _ in range(3):
            began = time.process_time()
            _LIST.sub("", _VARYING.sub("<number>", text))
            best = min(best, time.process_time() - began)
        return best

    short, long = seconds(1_500), seconds(15_000)
    assert long < 40 * max(short, 0.0005), (short, long)


def delta(**fields: object) -> FailureDelta:
    usual: dict[str, object] = {
        "number": 1,
        "project": 1,
        "queue": 7,
        "job_type": "mail",
        "failure": UUID(int=5),
        "count": 2,
        "job": UUID(int=1 << 24),
        "epoch": 1,
        "error_type": "ValueError",
        "message": "no 1",
        "at": NOW,
    }
    return FailureDelta(**{**usual, **fields})  # type: ignore[arg-type]


def test_a_group_counts_by_hour_and_queue_and_keeps_the_last() -> None:
    early = NOW - timedelta(hours=HOURS + 2)
    deltas = [delta(at=early), delta(queue=8, count=5), delta(at=NOW - timedelta(hours=1), epoch=9)]
    group = StoredGroup.begin(deltas[0], rest_of(1)).with_more(deltas)
    assert (group.count, group.first_seen, group.last_seen, group.epoch) == (9, early, NOW, 1)
    assert group.queue_counts() == {7: 4, 8: 5}
    shown = group.shown(["b", "a"], NOW)
    assert (shown.message, shown.error_type) == ("no <number>", "ValueError")
    assert shown.hours == (0,) * (HOURS - 2) + (2, 5)
    crowded = group.with_more([delta(queue=queue) for queue in range(100, 200)])
    assert len(crowded.queue_counts()) == MOST_QUEUES
    assert crowded.count == 209
    rest = StoredGroup.begin(delta(failure=rest_of(1)), rest_of(1)).shown([], NOW)
    assert (rest.is_rest, rest.error_type, rest.job_type) == (True, "", "")


@pytest.mark.parametrize(
    ("ago", "counts", "trend"),
    [
        (0.5, [9], Trend.NEW),
        (9, [0, 0, 50], Trend.QUIET),
        (9, [20, 20, 20], Trend.STEADY),
        (9, [1, 2, 1], Trend.STEADY),
        (9, [40, 10, 10], Trend.RISING),
        (9, [1, 10, 60], Trend.FALLING),
    ],
)
def test_the_trend_is_the_last_hour_beside_the_one_before(
    ago: float, counts: list[int], trend: Trend
) -> None:
    hours = {hour_of(NOW) - back: count for back, count in enumerate(counts)}
    assert trend_of(hours, NOW - timedelta(hours=ago), NOW) is trend


def test_a_listing_is_bounded() -> None:
    with pytest.raises(Invalid, match="limit"):
        check_query(GroupQuery(limit=1_000))
