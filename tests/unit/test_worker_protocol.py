"""What workers and the server say to each other stands for the domain's own values."""

from uuid import uuid4

import msgspec
import pytest

from taskforge.domain import worker_protocol
from taskforge.domain.errors import Invalid
from taskforge.domain.execution import Beat
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import Claimed, error_info
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import (
    CancelOutcome,
    Crashed,
    DeadlinePassed,
    DiedBeforeStart,
    FailForGood,
    Failure,
    HandBackOutcome,
    HeartbeatMissed,
    LeaseRanOut,
    MisfitOutcome,
    Outcome,
    RetryAfter,
    SkipOutcome,
    SnoozeFor,
    Success,
    TimedOut,
)
from taskforge.domain.queue import QueueSettings
from taskforge.domain.wire_outcome import (
    AnyWireOutcome,
    WireFailure,
    WireSnooze,
    WireSuccess,
    outcome_of,
    wire_of,
)
from taskforge.domain.worker import NewWorker

FENCE = fence_of(IdMint()(), 3)
ERROR = error_info("ValueError", "no", "Traceback …")
OUTCOMES: list[Outcome] = [
    Success(None),
    Success(b'{"a":1}'),
    Failure(ERROR),
    TimedOut(1.5),
    HeartbeatMissed(2.0),
    Crashed("w"),
    RetryAfter(3.0, ERROR),
    FailForGood(ERROR),
    SnoozeFor(4.0, "later"),
    CancelOutcome("off"),
    SkipOutcome("not me"),
    MisfitOutcome(ERROR),
    HandBackOutcome("stop"),
    DeadlinePassed(),
]


def test_every_outcome_is_tried() -> None:
    # which only a store says
    assert {type(one) for one in OUTCOMES} == set(Outcome.__args__) - {LeaseRanOut, DiedBeforeStart}
    assert {type(wire_of(one)) for one in OUTCOMES} == set(AnyWireOutcome.__args__)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda one: type(one).__name__)
def test_an_outcome_comes_back_as_it_was(outcome: Outcome) -> None:
    sent = msgspec.json.encode(
        worker_protocol.WireCompletion(execution=FENCE, outcome=wire_of(outcome), ran_seconds=0.5)
    )
    found = msgspec.json.decode(sent, type=worker_protocol.WireCompletion)
    assert (outcome_of(found.outcome), found.execution, found.ran_seconds) == (outcome, FENCE, 0.5)


def test_what_is_reported_is_checked_and_bounded() -> None:
    failed = outcome_of(WireFailure(msgspec.structs.replace(ERROR, message="x\x00" * 20_000)))
    assert isinstance(failed, Failure)
    assert len(failed.error.message) == 20_000
    assert "\x00" not in failed.error.message
    for bad in (
        WireSnooze(-1.0),
        WireSnooze(float("inf")),
        WireSuccess(msgspec.Raw(b"1e999")),
        WireSuccess(msgspec.Raw(b"{")),
    ):
        with pytest.raises(Invalid):
            outcome_of(bad)


def test_claims_beats_and_lines_come_back_as_they_were() -> None:
    job = Claimed(
        FENCE,
        "mail",
        "send",
        b'{"to":"a"}',
        1,
        3,
        0,
        5,
        30.0,
        2.0,
        None,
        0.1,
        QueueSettings(),
        ("x",),
        trace="00-a",
    )
    sent = msgspec.json.encode(worker_protocol.ClaimAnswer(jobs=(worker_protocol.wire_job(job),)))
    assert [
        worker_protocol.claimed(one)
        for one in msgspec.json.decode(sent, type=worker_protocol.ClaimAnswer).jobs
    ] == [job]
    beat = Beat(fence=FENCE, started_seconds_ago=1.0, progress=0.5, message="half")
    assert worker_protocol.beat_of(worker_protocol.wire_beat(beat)) == beat
    for line in (
        NewLine(FENCE, Level.WARN, "hm", b'{"n":1}', 0.5),
        NewLine(FENCE, Level.TRACE, "", None, 0.0),
    ):
        found = msgspec.json.decode(
            msgspec.json.encode(worker_protocol.wire_line(line)), type=worker_protocol.WireLine
        )
        assert worker_protocol.line_of(found) == line
    worker = NewWorker(
        name="w",
        queues=("a",),
        types=None,
        capabilities={"gpu": 1},
        role="r",
        version="1",
        host="h",
        pid=1,
    )
    assert worker_protocol.new_worker(worker_protocol.register_body(worker, 9.0)) == worker


def test_a_name_that_means_nothing_is_refused_in_a_body_and_ignored_in_an_answer() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"incarnation": "%s", "limits": 1}' % str(uuid4()).encode(),
            type=worker_protocol.ClaimBody,
        )
    assert msgspec.json.decode(
        b'{"drain": true, "newer": 1}', type=worker_protocol.HeartbeatAnswer
    ).drain


def test_an_error_with_half_a_surrogate_pair_can_be_written() -> None:
    assert error_info("ValueError", "file \udc80", "").message == "file ?"
