"""Bounds of what operators and workers may say."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.tenancy import Quota, check_quota
from taskforge.domain.worker import Sample, check_may_leave, check_sample


@pytest.mark.parametrize("name", [field.name for field in msgspec.structs.fields(Quota)])
def test_a_quota_is_at_least_one_and_has_an_end(name: str) -> None:
    check_quota(Quota(**{name: 1}))
    check_quota(Quota(**{name: None}))
    for value in (0, -1, 1 << 60):
        with pytest.raises(Invalid) as refused:
            check_quota(Quota(**{name: value}))
        assert refused.value.field == f"quota.{name}"


@pytest.mark.parametrize(
    ("name", "most"), [("cpu_percent", 1_000_000), ("memory_bytes", 2**62), ("stuck_slots", 1_000)]
)
def test_a_sample_is_of_a_machine_that_could_be(name: str, most: Any) -> None:
    """Of one core: a worker that uses eight of them tells of 800 percent."""
    for value in (0, most):
        check_sample(Sample(**{name: value}))
    for value in (-1, most + 1):
        with pytest.raises(Invalid) as refused:
            check_sample(Sample(**{name: value}))
        assert refused.value.field == name


def test_who_runs_jobs_does_not_leave_unless_it_died() -> None:
    worker = UUID(int=1)
    check_may_leave(worker, 0, died=False)
    check_may_leave(worker, 2, died=True)
    with pytest.raises(Conflict, match="still runs 2 jobs"):
        check_may_leave(worker, 2, died=False)
