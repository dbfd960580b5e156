"""What a server remembers of the jobs that it gave out, and how many of them a worker holds."""

from uuid import UUID, uuid4

from taskforge.domain.outcome import Attempt
from taskforge.domain.queue import QueueSettings
from taskforge.operations.work.given_jobs import REMEMBERED_SECONDS, GivenJobs


class Counted:
    def __init__(self) -> None:
        self.now = 0.0
        self.given = GivenJobs(lambda: self.now)

    def add(self, fence: UUID, worker: UUID) -> None:
        self.given.add(fence, worker, Attempt(1, 1, 0, 1), QueueSettings())


def test_a_job_that_two_calls_look_up_at_once_is_held_once() -> None:
    """After a restart of the server, say, when progress and log lines of it come together."""
    counted, worker, fence = Counted(), uuid4(), uuid4()
    for _ in range(2):
        counted.add(fence, worker)
    assert counted.given.count(worker) == 1
    for _ in range(2):
        counted.given.remove(fence)
    assert counted.given.count(worker) == 0


def test_what_was_given_out_long_ago_or_to_whoever_is_forgotten_takes_no_slot() -> None:
    counted, worker, gone = Counted(), uuid4(), uuid4()
    counted.add(uuid4(), worker)
    counted.now = REMEMBERED_SECONDS
    kept = uuid4()
    counted.add(kept, worker)
    counted.add(uuid4(), gone)
    counted.given.forget({worker})
    assert list(counted.given) == [kept]
    assert (counted.given.count(worker), counted.given.count(gone)) == (1, 0)
