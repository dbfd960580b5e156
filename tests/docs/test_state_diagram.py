"""The page of a job's states is what its script writes, and shows every status in one place."""

import pytest

from taskforge.domain.job import JobStatus
from tools import state_diagram


def test_the_page_is_up_to_date() -> None:
    assert state_diagram.PAGE.read_text(encoding="utf-8") == state_diagram.page()


def test_every_status_stands_in_one_place() -> None:
    places = [status for statuses in state_diagram.PLACES.values() for status in statuses]
    assert sorted(places) == sorted(JobStatus)


def test_a_move_without_a_cause_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known = state_diagram.TRANSITIONS
    more = {**known, JobStatus.SUCCEEDED: known[JobStatus.SUCCEEDED] | {JobStatus.PENDING}}
    monkeypatch.setattr(state_diagram, "TRANSITIONS", more)
    with pytest.raises(SystemExit, match="succeeded → pending"):
        state_diagram.moves()
