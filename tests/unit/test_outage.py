"""An outage is told once when it begins and once when it is over, however the calls are answered in
between."""

import pytest

from taskforge.domain.retry import Patience
from taskforge.telemetry.outage import BROKEN_SECONDS, QUIET_SECONDS, RECENT_SECONDS, Outage


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def outage(time: Time) -> Outage:
    made = Outage(time)
    made.is_watching = True
    return made


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message.partition(",")[0] for record in caplog.records]


def test_a_store_that_refuses_some_calls_is_not_back(
    outage: Outage, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        outage.meet(OSError("read-only"))
        time.now += QUIET_SECONDS / 2
        outage.serve()
    assert told(caplog) == ["the store does not serve"]
    time.now += QUIET_SECONDS
    outage.serve()
    outage.serve()
    assert told(caplog) == ["the store does not serve", "the store serves again"]
    assert "after 28 s" in caplog.text
    outage.meet(OSError("again"))
    assert len(told(caplog)) == 3


def test_one_that_was_not_there_is_back_with_the_first_answer(
    outage: Outage, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    outage.meet(OSError("refused"), unreachable=True)
    time.now += 0.1
    outage.serve()
    assert told(caplog) == ["the store does not serve", "the store serves again"]


def test_of_a_connection_that_broke_the_next_refusal_says_why(
    outage: Outage, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    outage.meet(OSError("a connection broke"), broken=True)
    outage.meet(OSError("another broke"), broken=True)
    assert told(caplog) == []
    time.now += 0.1
    outage.meet(OSError("no such database"), unreachable=True)
    outage.meet(OSError("no such user"))
    assert told(caplog) == ["the store does not serve"]
    assert caplog.records[0].message.endswith(": no such database")


def test_that_connections_go_on_breaking_is_told_too(
    outage: Outage, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    outage.meet(OSError("the first broke"), broken=True)
    time.now += BROKEN_SECONDS
    outage.meet(OSError("the next broke"), broken=True)
    assert told(caplog) == ["the store does not serve"]
    assert caplog.records[0].message.endswith(": the first broke")


def test_one_that_broke_and_is_back_is_told_of(
    outage: Outage, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    outage.meet(OSError("it broke"), broken=True)
    time.now += QUIET_SECONDS
    outage.serve()
    assert told(caplog) == ["the store does not serve", "the store serves again"]
    assert caplog.records[0].message.endswith(": it broke")


def test_an_outage_is_counted_from_the_last_answer(
    outage: Outage, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    """In a freeze the first refusal comes when somebody has waited for long enough."""
    outage.serve()
    time.now += 13
    outage.meet(OSError("no answer"), unreachable=True)
    time.now += 19
    outage.serve()
    assert "after 32 s" in caplog.text


def test_an_answer_of_long_ago_began_no_outage(
    outage: Outage, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    outage.serve()
    time.now += RECENT_SECONDS + 1  # nobody asked
    outage.meet(OSError("refused"), unreachable=True)
    time.now += 4
    outage.serve()
    assert "after 4.0 s" in caplog.text


def test_before_it_was_opened_and_after_it_was_closed_nothing_is_told(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    outage.is_watching = False
    outage.meet(OSError("no such database"))
    assert not outage.is_on
    assert told(caplog) == []


def test_waits_grow_to_a_bound_and_begin_anew() -> None:
    patience = Patience(chance=lambda: 0.5)
    waits = [patience.wait() for _ in range(7)]
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert 0.8 < waits[-2] == waits[-1] <= 2.0
    assert patience.wait(5.0) == 5.0
    patience.forget()
    assert patience.wait() == 0.1
    assert Patience(chance=lambda: 1.0).wait() < QUIET_SECONDS
