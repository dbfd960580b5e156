"""The sync client: the same requests, sent from code that has no event loop."""

import secrets
from collections.abc import Sequence
from typing import Self, TypeVar
from uuid import UUID

import msgspec

from taskforge.client import directory, jobs, queues
from taskforge.client.requests import Request
from taskforge.client.transport import SyncTransport, options_for
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.decoded import DecodedJob, DecodedPage, decode_job, decode_page
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Inserted, NewJob
from taskforge.domain.job_page import Counted
from taskforge.domain.name_pages import NamePage
from taskforge.domain.query import JobFilter, Page, QueueStats
from taskforge.domain.queue import Queue

T = TypeVar("T")


class SyncClient:
    """`with SyncClient("https://jobs.example.com", token) as client: client.enqueue(new_job("mail",
    "send", {…}))`"""

    def __init__(self, url: str, token: str = "") -> None:
        self._transport = SyncTransport(options_for(url, token))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def send(self, request: Request[T]) -> T:
        """Any request of `taskforge.client.jobs` and `taskforge.client.queues`."""
        return self._transport.send(request)

    def explain(self, job: UUID) -> Explanation:
        """Why it is not running."""
        return self.send(jobs.explain(job))

    def enqueue(self, job: NewJob) -> Inserted:
        return self.send(jobs.insert_one(job, f"auto-{secrets.token_hex(16)}"))

    def get(self, job: UUID) -> DecodedJob:
        return decode_job(self.send(jobs.get_job(job)))

    def list_jobs(self, wanted: JobFilter | None = None, page: Page | None = None) -> DecodedPage:
        """A page may be short; only one without a cursor is the last."""
        return decode_page(self.send(jobs.list_jobs(wanted or JobFilter(), page or Page())))

    def count_jobs(self, wanted: JobFilter | None = None) -> Counted:
        """How many jobs match, up to 10,000."""
        return self.send(jobs.count_jobs(wanted or JobFilter()))

    def change(self, job: UUID, verb: JobChange) -> Changed:
        return self.send(jobs.change(job, verb))

    def queues(self) -> Sequence[Queue]:
        found: list[Queue] = []
        page = NamePage(limit=directory.PAGE)
        while True:
            part = self.send(directory.queues(page))
            found += part.items
            if part.cursor is None:
                return found
            page = msgspec.structs.replace(page, cursor=part.cursor)

    def stats(self) -> Sequence[QueueStats]:
        return self.send(queues.stats())
