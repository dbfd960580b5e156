"""Which pods of a Deployment are marked and how many replicas are left, so that one pod goes."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from taskforge.control.providers.pod_removal import (
    MARK,
    IsGone,
    Lower,
    MustWait,
    SeenDeployment,
    SeenPod,
    plan_removal,
)

A, B, C = (SeenPod(name=name, uid=name, replica_set="workers-1") for name in "abc")
SEEN = SeenDeployment(replicas=3, is_observed=True, pods=(A, B, C))


def test_the_pod_is_marked_and_one_replica_less_is_wanted() -> None:
    assert plan_removal(SEEN, "b", 300) == Lower((B,), MARK, 2)


def test_a_pod_that_is_gone_or_ends_costs_nothing() -> None:
    assert plan_removal(SEEN, "d", 300) == IsGone()
    ending = replace(SEEN, pods=(A, replace(B, ending=True), C), replicas=2)
    assert plan_removal(ending, "b", 300) == IsGone()


def test_a_marked_pod_whose_replica_may_be_taken_away_is_waited_for() -> None:
    marked = replace(B, cost=MARK)
    seen = replace(SEEN, pods=(A, marked, C))
    assert isinstance(plan_removal(replace(seen, replicas=2), "b", 300), MustWait)
    # as many as are wanted, and it is here: nobody took its replica away
    assert plan_removal(seen, "b", 300) == Lower((marked,), MARK, 2)


def test_a_pod_goes_before_one_that_was_marked_earlier_and_works_again() -> None:
    seen = replace(SEEN, pods=(replace(A, cost=MARK), B, C))
    assert plan_removal(seen, "b", 300) == Lower((B,), MARK - 1, 2)


def test_a_pod_that_never_came_goes_with_it() -> None:
    late = replace(C, ready=False, pending_seconds=301)
    assert plan_removal(replace(SEEN, pods=(A, B, late)), "b", 300) == Lower((B, late), MARK, 1)


def test_replicas_that_a_quota_refuses_are_not_counted() -> None:
    seen = replace(SEEN, replicas=9, is_refused=True)
    assert plan_removal(seen, "b", 300) == Lower((B,), MARK, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: replace(SEEN, is_observed=False), "not carried out yet"),
        (lambda: replace(SEEN, replicas=4), "pods are being made"),
        (lambda: replace(SEEN, pods=(A, B, replace(C, ready=False))), "pod c is not ready"),
        (
            lambda: replace(SEEN, pods=(A, B, replace(C, ready=False, pending_seconds=9))),
            "pod c is pending",
        ),
        (lambda: replace(SEEN, pods=(A, B, replace(C, replica_set="workers-2"))), "rolled out"),
    ],
)
def test_nothing_is_lowered_while_another_pod_would_go(
    change: Callable[[], SeenDeployment], said: str
) -> None:
    removal = plan_removal(change(), "b", 300)
    assert isinstance(removal, MustWait)
    assert said in removal.reason
