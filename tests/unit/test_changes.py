from uuid import UUID

import msgspec
import pytest

from taskforge.domain import changes as c
from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.job import FINAL, TRANSITIONS, JobStatus

P, S, R, OK, F, C = (
    JobStatus.PENDING,
    JobStatus.SCHEDULED,
    JobStatus.PROCESSING,
    JobStatus.SUCCEEDED,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
)
ALL = (P, S, R, OK, F, C)
JOB = UUID(int=1 << 24)


def standing(status: JobStatus, **changes: object) -> c.Standing:
    plain = c.Standing(
        job=JOB,
        status=status,
        queue="default",
        priority=2,
        attempt=1,
        max_attempts=3,
        crashes=1,
        origin_queue=None,
    )
    return msgspec.structs.replace(plain, **changes)


ALLOWED: list[tuple[c.JobChange, dict[JobStatus, type[c.Move]]]] = [
    (c.CancelJob(), {P: c.End, S: c.End, R: c.AskToStop}),
    (c.RetryJob(), {F: c.Place, C: c.Place}),
    (c.RetryJob(attempts=2), {F: c.Place, C: c.Place}),
    (c.EditJob(priority=5), {P: c.Place, S: c.Place}),
    (c.RedriveJob(), {}),
    (c.DeleteJob(), dict.fromkeys(FINAL, c.Remove)),
    (c.ErasePayload(), dict.fromkeys(FINAL, c.Erase)),
    (c.ExpireJob("expired"), {P: c.End, S: c.End}),
]


@pytest.mark.parametrize("status", ALL)
@pytest.mark.parametrize(("change", "allowed"), ALLOWED, ids=lambda value: type(value).__name__)
def test_each_verb_in_each_status(
    change: c.JobChange, allowed: dict[JobStatus, type[c.Move]], status: JobStatus
) -> None:
    if status in allowed:
        move = c.plan(change, standing(status))
        assert isinstance(move, allowed[status])
        if isinstance(move, c.End):
            assert move.status in TRANSITIONS[status]
        if isinstance(move, c.Remove):
            assert None in TRANSITIONS[status]
    else:
        with pytest.raises(Conflict, match=str(JOB)):
            c.plan(change, standing(status))


def test_every_verb_is_in_the_table() -> None:
    assert {type(change) for change, _ in ALLOWED} == set(c.JobChange.__args__)


@pytest.mark.parametrize("status", ALL)
def test_only_dead_letters_that_wait_or_failed_are_redriven(status: JobStatus) -> None:
    dead = standing(status, origin_queue="orders", attempt=3)
    if status in (P, S, F):
        assert c.plan(c.RedriveJob(), dead) == c.Place(
            queue="orders",
            priority=2,
            attempt=0,
            max_attempts=None,
            crashes=0,
            at=0.0,
            clear_origin=True,
        )
    else:
        with pytest.raises(Conflict):
            c.plan(c.RedriveJob(), dead)


@pytest.mark.parametrize(
    ("attempt", "most", "asked", "budget"),
    [
        (1, 3, None, 3),
        (3, 3, None, 4),
        (3, 3, 5, 8),
        (0, 3, None, 3),
        (1, 3, 1, 2),
        (5, 3, None, 6),
    ],
)
def test_a_retry_uses_what_is_left_or_grants_one_or_what_was_asked(
    attempt: int, most: int, asked: int | None, budget: int
) -> None:
    move = c.plan(c.RetryJob(asked), standing(F, attempt=attempt, max_attempts=most))
    assert isinstance(move, c.Place)
    assert (move.attempt, move.max_attempts, move.crashes, move.at) == (attempt, budget, 0, 0.0)


def test_the_answer_to_a_retry_says_what_it_granted() -> None:
    for job, note in [
        (standing(F, attempt=3, max_attempts=3), "1 attempts left, 1 of them granted now"),
        (standing(F, attempt=1, max_attempts=3), "2 attempts left"),
    ]:
        assert c.note_on(c.RetryJob(), job, c.plan(c.RetryJob(), job)) == note


def test_the_answer_to_a_cancel_says_whether_it_was_asked_before() -> None:
    for job, note in [
        (standing(R), "asked to stop"),
        (standing(R, cancel_requested=True), "already asked to stop"),
    ]:
        assert c.note_on(c.CancelJob(), job, c.plan(c.CancelJob(), job)) == note
    assert c.note_on(c.CancelJob(), standing(P), c.plan(c.CancelJob(), standing(P))) is None


def test_an_edit_changes_what_it_names_and_keeps_the_rest() -> None:
    kept = c.Place(queue="default", priority=2, attempt=1, max_attempts=3, crashes=1)
    replace = msgspec.structs.replace
    assert c.plan(c.EditJob(queue="other"), standing(P)) == replace(kept, queue="other")
    assert c.plan(c.EditJob(priority=0), standing(P)) == replace(kept, priority=0)
    assert c.plan(c.EditJob(at=5.0), standing(S)) == replace(kept, at=5.0)
    assert c.plan(c.EditJob(payload=b"{}"), standing(S)) == replace(kept, payload=b"{}")


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("priority", c.EditJob(priority=10)),
        ("at", c.EditJob(at=-1.0)),
        ("queue", c.EditJob(queue="")),
        ("edit", c.EditJob()),
        ("attempts", c.RetryJob(attempts=0)),
    ],
)
def test_bad_changes_name_their_field(field: str, change: c.JobChange) -> None:
    with pytest.raises(Invalid) as caught:
        c.check_change(change)
    assert caught.value.field == field
