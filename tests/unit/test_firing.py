"""What is done about a schedule that is due: late slots, runs that overlap, jitter."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.errors import Invalid
from taskforge.domain.firing import MISSED_SECONDS, due_time, plan
from taskforge.domain.schedule import (
    CatchUp,
    Overlap,
    Schedule,
    SlotOutcome,
    Timing,
    check_timing,
    job_template,
    next_slot,
    preview,
)

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def schedule(**timing: Any) -> Schedule:
    made = check_timing(Timing(**({"every_seconds": 60.0, "starts_at": START} | timing)))
    return Schedule(
        number=1,
        id=UUID(int=7),
        project=1,
        name="nightly",
        description="",
        timing=made,
        job=job_template("default", "work"),
        is_paused=False,
        declared_by=None,
        next_at=next_slot(made, START - timedelta(seconds=1)),
        due_at=None,
        last_slot=None,
        last_job=None,
        version=1,
        created_at=START,
        updated_at=START,
    )


def after(**span: float) -> datetime:
    return START + timedelta(**span)


def test_a_slot_on_time_fires_and_the_next_one_is_due() -> None:
    made = plan(schedule(), after(seconds=1), runs=False)
    assert made.fires == [START]
    assert made.next_at == made.due_at == after(seconds=60)


def test_a_slot_that_its_own_jitter_held_up_was_not_missed() -> None:
    made = schedule(every_seconds=3_600.0, jitter_seconds=1_800.0, catch_up=CatchUp.SKIP)
    due = due_time(made.id, made.timing, START)
    assert due > after(seconds=MISSED_SECONDS), "the draw of this schedule is a short one"
    assert plan(made, due, runs=False).fires == [START]


def test_slots_that_a_change_of_leaders_held_up_all_fire_whatever_the_policy() -> None:
    for policy in CatchUp:
        made = plan(schedule(every_seconds=1.0, catch_up=policy), after(seconds=20), runs=False)
        assert made.fires == [after(seconds=second) for second in range(21)]


@pytest.mark.parametrize(
    ("policy", "fires"),
    [
        (CatchUp.SKIP, []),
        (CatchUp.ONCE, [after(hours=5)]),
        (CatchUp.ALL, [after(hours=3), after(hours=4), after(hours=5)]),
    ],
)
def test_missed_slots_follow_the_policy_and_its_bound(
    policy: CatchUp, fires: list[datetime]
) -> None:
    late = schedule(every_seconds=3_600.0, catch_up=policy, catch_up_limit=3)
    made = plan(late, after(hours=5, minutes=30), runs=False)
    assert made.fires == fires
    assert made.next_at == after(hours=6)
    missed = [slot.at for slot in made.slots if slot.outcome is SlotOutcome.MISSED]
    assert missed == [max(after(hours=hour) for hour in range(6) if after(hours=hour) not in fires)]


def test_an_outage_of_a_month_is_not_counted_through() -> None:
    late = schedule(every_seconds=1.0, catch_up=CatchUp.ONCE)
    made = plan(late, after(days=30), runs=False)
    assert made.fires == [after(days=30, seconds=second) for second in range(-60, 1)]


def test_more_slots_than_a_round_takes_come_in_the_next() -> None:
    late = schedule(every_seconds=1.0, catch_up=CatchUp.ALL, catch_up_limit=300)
    now, fired = after(seconds=400), []
    for _ in range(10):
        made = plan(late, now, runs=False)
        fired += made.fires
        late = _moved(late, made.next_at)
        if made.next_at is not None and made.next_at > now:
            break
    assert fired == sorted(set(fired))
    assert fired[-1] == after(seconds=400)
    assert len(fired) == 300 + MISSED_SECONDS


def _moved(old: Schedule, next_at: datetime | None) -> Schedule:
    return msgspec.structs.replace(old, next_at=next_at)


def test_a_run_that_goes_on_skips_the_next() -> None:
    made = plan(schedule(overlap=Overlap.SKIP), after(seconds=1), runs=True)
    assert [slot.outcome for slot in made.slots] == [SlotOutcome.SKIPPED]
    assert made.next_at == after(seconds=60)


def test_a_run_that_goes_on_is_replaced() -> None:
    made = plan(schedule(overlap=Overlap.REPLACE), after(seconds=1), runs=True)
    assert made.fires == [START]
    assert made.replaces
    assert not plan(schedule(overlap=Overlap.REPLACE), after(seconds=1), runs=False).replaces


def test_a_slot_waits_for_the_run_before_it() -> None:
    waits = plan(schedule(overlap=Overlap.QUEUE), after(seconds=1), runs=True)
    assert not waits.slots
    assert waits.next_at == START
    assert waits.due_at is not None
    assert waits.due_at > after(seconds=1)
    goes = plan(schedule(overlap=Overlap.QUEUE), after(seconds=30), runs=False)
    assert goes.fires == [START]


def test_of_several_slots_that_wait_one_fires_at_a_time() -> None:
    made = plan(schedule(overlap=Overlap.QUEUE, every_seconds=10.0), after(seconds=25), runs=False)
    assert made.fires == [START]
    assert made.next_at == after(seconds=10)


def test_jitter_is_the_same_for_everyone_and_bounded() -> None:
    timing = Timing(every_seconds=60.0, jitter_seconds=30.0)
    ids = [UUID(int=number) for number in range(200)]
    delays = [(due_time(one, timing, START) - START).total_seconds() for one in ids]
    assert delays == [(due_time(one, timing, START) - START).total_seconds() for one in ids]
    assert all(0 <= delay <= 30 for delay in delays)
    assert max(delays) - min(delays) > 20


def test_a_slot_does_not_fire_before_its_jitter() -> None:
    made = schedule(jitter_seconds=30.0)
    due = due_time(made.id, made.timing, START)
    assert not plan(made, due - timedelta(seconds=0.1), runs=False).fires
    assert plan(made, due, runs=False).fires == [START]


def test_nothing_comes_before_the_start_or_behind_the_end() -> None:
    timing = check_timing(
        Timing(cron="0 * * * *", starts_at=START, ends_at=START + timedelta(hours=2))
    )
    assert preview(timing, START - timedelta(days=1), 10) == [
        START + timedelta(hours=hour) for hour in range(3)
    ]


def test_once_comes_once() -> None:
    timing = check_timing(Timing(at=START))
    assert preview(timing, START - timedelta(days=1), 10) == [START]


@pytest.mark.parametrize(
    ("timing", "field"),
    [
        ({}, "cron, every_seconds, at"),
        ({"cron": "@daily", "every_seconds": 5.0}, "cron, every_seconds, at"),
        ({"every_seconds": 0.0}, "every_seconds"),
        ({"every_seconds": 0.5}, "every_seconds"),
        ({"every_seconds": -1.0}, "every_seconds"),
        ({"every_seconds": float("nan")}, "every_seconds"),
        ({"every_seconds": 1.0005}, "every_seconds"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"cron": "@daily", "zone": "Mars/Base"}, "zone"),
        ({"cron": "@daily", "starts_at": START, "ends_at": START}, "ends_at"),
        ({"at": datetime(2026, 1, 1)}, "at"),  # noqa: DTZ001 - that is what is wrong
        ({"cron": "@daily", "jitter_seconds": -1.0}, "jitter_seconds"),
        ({"cron": "@daily", "catch_up_limit": 0}, "catch_up_limit"),
        ({"cron": "@daily", "catch_up": "never"}, "catch_up"),
        ({"cron": "@daily", "overlap": "maybe"}, "overlap"),
    ],
)
def test_a_wrong_timing_is_refused(timing: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_timing(Timing(**timing))
    assert refused.value.field == field


@given(
    every=st.integers(1, 100),
    looks=st.lists(st.integers(1, 500), min_size=1, max_size=20),
    limit=st.integers(1, 50),
    policy=st.sampled_from(list(CatchUp)),
    jitter=st.sampled_from([0.0, 5.0, 40.0]),
)
def test_no_slot_fires_twice_and_none_out_of_order(
    every: int, looks: list[int], limit: int, policy: CatchUp, jitter: float
) -> None:
    made = schedule(
        every_seconds=float(every), catch_up=policy, catch_up_limit=limit, jitter_seconds=jitter
    )
    now, done = START, []
    for seconds in looks:
        now += timedelta(seconds=seconds)
        planned = plan(made, now, runs=False)
        done += [slot.at for slot in planned.slots]
        assert planned.next_at is not None
        made = _moved(made, planned.next_at)
        assert not done or (made.next_at is not None and made.next_at > done[-1])
    assert done == sorted(set(done))
