from typing import Any
from uuid import UUID, uuid4

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.limiter import Adaptive, Bucket, FixedRate, LeakyBucket, TokenBucket
from taskforge.domain.queue import (
    CreateQueue,
    QueueSettings,
    UpdateQueue,
    check_dead_letter,
    check_queue,
)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("settings.max_concurrent_jobs", {"max_concurrent_jobs": 0}),
        ("settings.max_retries", {"max_retries": -1}),
        ("settings.max_retries", {"max_retries": 2.5}),
        ("settings.timeout_seconds", {"timeout_seconds": 0}),
        ("settings.timeout_seconds", {"timeout_seconds": None}),
        ("settings.retry_delay_seconds", {"retry_delay_seconds": -1}),
        ("settings.max_retry_delay_seconds", {"max_retry_delay_seconds": 0.5}),
        ("settings.backoff_multiplier", {"backoff_multiplier": 0.5}),
        ("settings.retry_jitter", {"retry_jitter": 1.1}),
        ("settings.dead_letter_queue_id", {"dead_letter_queue_id": "not an id"}),
        ("settings.dead_letter_queue_id", {"dead_letter_queue_id": 7}),
        ("settings.rate_limit", {"rate_limit": 0}),
        ("settings.rate_limit_burst", {"rate_limit_burst": 5}),
        ("settings.rate_limit_burst", {"rate_limit": 5, "rate_limit_burst": 0}),
        ("settings.rate_limit_algorithm", {"rate_limit_algorithm": "leaky"}),
        ("settings.rate_limit_algorithm", {"rate_limit_algorithm": "leaky_bucket"}),
        (
            "settings.rate_limit_burst",
            {"rate_limit": 5, "rate_limit_burst": 2, "rate_limit_algorithm": "fixed_rate"},
        ),
        ("settings.heartbeat_timeout_seconds", {"heartbeat_timeout_seconds": 0}),
        ("settings.max_crashes", {"max_crashes": 0}),
        ("settings.accept_while_paused", {"accept_while_paused": "yes"}),
        ("settings.retention_days", {"retention_days": 0}),
        ("settings.payload_limit_bytes", {"payload_limit_bytes": 16 * 1024 * 1024 + 1}),
        ("settings.age_boost", {"age_boost": 0}),
        ("settings.age_boost", {"age_boost": 5, "fairness": {}}),
        ("settings.age_boost", {"age_boost": 5, "load_balancing": "sticky"}),
        ("settings.priority_pacing", {"priority_pacing": True}),
        ("settings.priority_pacing.low", {"priority_pacing": {"low": 3}}),
        ("settings.priority_pacing.low_seconds", {"priority_pacing": {"low_seconds": 3_601}}),
        ("settings.priority_pacing.high_seconds", {"priority_pacing": {"high_seconds": -1}}),
        ("settings.priority_pacing.medium_seconds", {"priority_pacing": {"low_seconds": 9}}),
        ("settings.priority_pacing.high_seconds", {"priority_pacing": {"high_seconds": 11}}),
    ],
)
def test_every_setting_is_bounded(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        QueueSettings.parse(values)
    assert caught.value.field == field


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(
        Invalid, match=r"settings\.max_retry: is not a known setting; did you mean 'max_retries'"
    ):
        QueueSettings.parse({"max_retry": 3})


def test_null_means_off_where_a_setting_may_be_off() -> None:
    assert QueueSettings.parse({"max_retries": None, "rate_limit": None}) == QueueSettings()


def test_texts_become_ids() -> None:
    identifier = uuid4()
    parsed = QueueSettings.parse({"dead_letter_queue_id": str(identifier)})
    assert parsed.dead_letter_queue_id == identifier


def test_attempts_are_retries_and_the_first_try() -> None:
    assert QueueSettings().max_attempts == 3
    assert QueueSettings(max_retries=0).max_attempts == 1
    assert QueueSettings(max_retries=9).max_attempts == 10


def test_a_rate_limit_gathers_one_seconds_worth_unless_told() -> None:
    assert QueueSettings().bucket is None
    assert QueueSettings(rate_limit=600).bucket == TokenBucket(10.0, 10.0)
    assert QueueSettings(rate_limit=6).bucket == TokenBucket(0.1, 1.0)
    assert QueueSettings(rate_limit=6, rate_limit_burst=50).bucket == TokenBucket(0.1, 50.0)


@pytest.mark.parametrize(
    ("algorithm", "bucket"),
    [
        ("token_bucket", TokenBucket(10.0, 10.0)),
        ("fixed_rate", FixedRate(10.0)),
        ("leaky_bucket", LeakyBucket(10.0, 10.0)),
        ("adaptive", Adaptive(10.0, 10.0)),
    ],
)
def test_the_algorithm_of_a_rate_limit_is_chosen_by_name(algorithm: str, bucket: Bucket) -> None:
    assert (
        QueueSettings.parse({"rate_limit": 600, "rate_limit_algorithm": algorithm}).bucket == bucket
    )


def test_only_limited_queues_are_gated() -> None:
    assert not QueueSettings(max_crashes=1).is_gated
    assert QueueSettings(max_concurrent_jobs=1).is_gated
    assert QueueSettings(rate_limit=1).is_gated


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("name", CreateQueue(name="")),
        ("name", CreateQueue(name="q" * 101)),
        ("name", CreateQueue(name=" q")),
        ("name", UpdateQueue(queue=uuid4(), name="q\n")),
        ("description", CreateQueue(name="q", description="d" * 1_001)),
        ("priority", CreateQueue(name="q", priority=10)),
        ("priority", UpdateQueue(queue=uuid4(), priority=-1)),
    ],
)
def test_queue_rules_name_their_field(field: str, change: CreateQueue | UpdateQueue) -> None:
    with pytest.raises(Invalid) as caught:
        check_queue(change)
    assert caught.value.field == field


def test_an_update_that_leaves_all_as_it_is_passes() -> None:
    check_queue(UpdateQueue(queue=uuid4()))
    check_queue(CreateQueue(name="q" * 100, description="", priority=9))


A, B, C = (UUID(int=number) for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("start", "target", "targets", "problem"),
    [
        (A, A, {A: None}, "itself"),
        (A, B, {A: None}, "not a queue of this project"),
        (A, B, {A: None, B: A}, "cycle"),
        (A, B, {A: None, B: C, C: A}, "cycle"),
        (None, B, {B: C, C: B}, "cycle"),
    ],
)
def test_dead_letter_paths_may_not_lead_back(
    start: UUID | None, target: UUID, targets: dict[UUID, UUID | None], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem) as caught:
        check_dead_letter(start, target, targets)
    assert caught.value.field == "settings.dead_letter_queue_id"


def test_a_chain_that_ends_is_fine() -> None:
    check_dead_letter(A, B, {A: None, B: C, C: None})
    check_dead_letter(A, B, {A: C, B: C, C: None})
    check_dead_letter(None, A, {A: None})
