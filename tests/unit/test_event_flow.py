"""A stream tells events one by one, and above a number a second sums: nothing is left out, and the
place where a reader goes on never lies behind what was not told."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.event_flow import MOST_A_SECOND, EventFlow, jobs_in
from taskforge.domain.ids import IdMint
from taskforge.domain.query import Event

NOW = datetime(2030, 1, 1, tzinfo=UTC)
JOB = IdMint()()


def event(number: int, topic: str = "job.failed", queue: int = 1) -> Event:
    return Event(str(number), 1, topic, queue, (JOB,), NOW + timedelta(milliseconds=number))


def test_few_events_are_told_as_they_are() -> None:
    flow = EventFlow()
    events = [event(number) for number in range(MOST_A_SECOND)]
    assert flow.take(events, 0.0) == events
    assert not flow.is_holding
    assert flow.seconds_left(0.5, 2.0) == 2.0


def test_many_are_summed_up_by_queue_and_topic_until_a_second_is_quiet() -> None:
    flow = EventFlow(most=3)
    crowd = [event(n, ("job.failed", "job.succeeded")[n % 2], n % 3) for n in range(12)]
    assert flow.take(crowd, 0.0) == crowd[:3]
    assert flow.is_holding
    assert flow.seconds_left(0.4, 2.0) == 0.6
    assert flow.take([], 0.9) == []
    sums = flow.take([], 1.0)
    assert len(sums) == 6
    assert [one.cursor for one in sums] == ["2"] * 5 + ["11"]
    assert sum(jobs_in(one) for one in sums) == 9
    assert {one.jobs for one in sums} == {()}
    [again] = [one for one in [*flow.take([event(12)], 1.2), *flow.take([], 2.2)] if one]
    assert (jobs_in(again), again.cursor) == (1, "12")
    assert flow.take([event(13)], 2.3) == [event(13)]


def test_what_is_of_no_job_is_told_at_once_and_in_its_place() -> None:
    flow = EventFlow(most=1)
    told = flow.take([event(0), event(1), event(2, "queue.paused"), event(3)], 0.0)
    assert [(one.cursor, one.topic) for one in told] == [
        ("0", "job.failed"),
        ("1", "job.failed"),
        ("2", "queue.paused"),
    ]
    assert flow.is_holding


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1.2), st.integers(0, 9), st.sampled_from(["job.a", "job.b", "worker.c"])
        ),
        max_size=40,
    )
)
def test_every_job_is_told_once_and_cursors_only_rise(
    steps: list[tuple[float, int, str]],
) -> None:
    flow, now, number, told = EventFlow(most=4), 0.0, 0, []
    for wait, count, topic in steps:
        now += wait
        some = [event(number + n, topic, n % 2) for n in range(count)]
        number += count
        told += flow.take(some, now)
        cursors = [int(one.cursor) for one in told if one.cursor]
        assert cursors == sorted(cursors)
        if not flow.is_holding and number:
            assert int(told[-1].cursor) == number - 1
    told += flow.take([], now + 2)
    assert sum(jobs_in(one) for one in told) == number
