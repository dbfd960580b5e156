"""One application before and after a deploy that changes a handler's signature."""

import os

from taskforge import TaskForge
from taskforge.domain.outcome import FailForGood
from taskforge.worker import executor


def make() -> TaskForge:
    if os.environ.get("CHAOS_TWIN") == "fails what does not fit":
        executor.MisfitOutcome = FailForGood  # type: ignore[assignment,misc]
    return TaskForge()
