from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.job import (
    FINAL,
    MAX_ERROR_CHARACTERS,
    TRANSITIONS,
    JobStatus,
    NewJob,
    error_info,
    new_job,
)
from taskforge.domain.queue import MAX_PAYLOAD_BYTES


def body(**changes: Any) -> NewJob:
    return new_job(**({"queue": "default", "job_type": "work", "payload": {"n": 1}} | changes))


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("queue", {"queue": "q" * 101}),
        ("queue", {"queue": ""}),
        ("job_type", {"job_type": "t" * 101}),
        ("job_type", {"job_type": None}),
        ("priority", {"priority": 10}),
        ("priority", {"priority": -1}),
        ("priority", {"priority": 1.5}),
        ("payload", {"payload": float("nan")}),
        ("payload.deep[0]", {"payload": {"deep": [float("inf")]}}),
        ("payload", {"payload": "x" * MAX_PAYLOAD_BYTES}),
        ("max_attempts", {"max_attempts": 0}),
        ("max_attempts", {"max_attempts": 10_001}),
        ("at", {"at": datetime(2030, 1, 1)}),  # noqa: DTZ001 - the mistake under test
        ("at", {"at": -1}),
        ("deadline", {"deadline": datetime(2030, 1, 1)}),  # noqa: DTZ001
        ("deadline", {"deadline": -0.5}),
        ("expires", {"expires": "tomorrow"}),
        ("timeout_seconds", {"timeout_seconds": 0}),
        ("timeout_seconds", {"timeout_seconds": float("nan")}),
        ("tags", {"tags": "one"}),
        ("tags", {"tags": {"a": 1}}),
        ("tags", {"tags": [str(number) for number in range(21)]}),
        ("tags[1]", {"tags": ["good", ""]}),
        ("tags[0]", {"tags": ["x" * 101]}),
        ("requires", {"requires": ["gpu"]}),
        ("requires.gpu", {"requires": {"gpu": {"~": 1}}}),
        ("unique_key", {"unique_key": ""}),
        ("unique_key", {"unique_key": "k" * 256}),
        ("idempotency_key", {"idempotency_key": "k" * 256}),
        ("idempotency_seconds", {"idempotency_seconds": 0}),
        ("fairness_key", {"fairness_key": 7}),
        ("trace", {"trace": "t" * 2_001}),
    ],
)
def test_every_rule_names_its_field(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        body(**changes)
    assert caught.value.field == field


def test_the_defaults() -> None:
    job = body()
    assert job == NewJob(queue="default", job_type="work", payload=b'{"n":1}')
    assert (job.priority, job.max_attempts, job.at, job.tags, job.requires) == (
        0,
        None,
        None,
        (),
        "",
    )


def test_tags_are_kept_once_in_order() -> None:
    assert body(tags=["b", "a", "b"]).tags == ("b", "a")


@pytest.mark.parametrize(
    "changes",
    [
        {"queue": "other"},
        {"job_type": "other"},
        {"payload": {"n": 2}},
        {"priority": 1},
        {"max_attempts": 5},
        {"at": 60},
        {"deadline": datetime(2030, 1, 1, tzinfo=UTC)},
        {"expires": 60},
        {"tags": ["a"]},
        {"requires": {"gpu": True}},
        {"unique_key": "u"},
    ],
)
def test_an_idempotency_key_stands_for_the_whole_body(changes: dict[str, Any]) -> None:
    assert body(**changes).body_hash() != body().body_hash()


def test_the_body_is_not_the_key_nor_the_trace_nor_the_id() -> None:
    same = msgspec.structs.replace(
        body(), idempotency_key="k", trace="t", id=None, fairness_key="f"
    )
    assert same.body_hash() == body().body_hash()


def test_the_transition_table_is_closed_and_every_status_can_be_reached_and_left() -> None:
    statuses = set(JobStatus)
    assert set(TRANSITIONS) == statuses | {None}
    reached = set().union(*TRANSITIONS.values())
    assert reached == statuses | {None}
    for status in FINAL:
        assert None in TRANSITIONS[status]
        assert JobStatus.PROCESSING not in TRANSITIONS[status]
    assert JobStatus.PENDING not in TRANSITIONS[JobStatus.SUCCEEDED]
    assert {status for status in statuses if status.is_final} == FINAL


def test_stored_errors_are_bounded_and_keep_the_end_of_a_traceback() -> None:
    info = error_info("T" * 300, "m" * 30_000, "start" + "t" * 30_000 + "end")
    assert len(info.type) == 200
    assert len(info.message) == len(info.traceback) == MAX_ERROR_CHARACTERS
    assert info.traceback.endswith("end")
    assert "\x00" not in error_info("a\x00", "b\x00", "c\x00").message
