"""What a change to a queue is checked against: the other queues of its project, as the transaction
sees them that changes it."""

from collections.abc import Iterable
from uuid import UUID

from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.queue import Queue, check_dead_letter
from taskforge.domain.queue_changes import QueueValues, check_queue_name
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.transaction import Transaction


class Changing:
    """One change to the queues of a project."""

    def __init__(self, transaction: Transaction, project: int, version: int) -> None:
        self.transaction = transaction
        self.cache = transaction.catalog_cache
        self.project = project
        self.version = version  # of the project's catalog from now on

    def check(self, queue: UUID | None, values: QueueValues) -> None:
        """Whether a queue may become so; None: one that is not there yet."""
        if values.is_renamed:
            bearer = self.cache.find_named(self.cache.of(self.project), values.name)
            check_queue_name(values.name, None if bearer is None else bearer.queue)
        target = values.settings.dead_letter_queue_id
        if target is not None:
            targets = {one: grave for one, _, grave in self._dead_letter_targets(target)}
            check_dead_letter(queue, target, targets)

    def dead_letters_to(self, queue: Queue) -> list[tuple[str, UUID | None]]:
        return [(name, grave) for _, name, grave in self._dead_letter_targets(queue.id)]

    def _dead_letter_targets(self, target: UUID) -> list[tuple[UUID, str, UUID | None]]:
        rows = self.transaction.execute(
            sql("dead_letter_targets"), (self.project, target.bytes)
        ).fetchall()
        return [
            (uuid_from_bytes(one), name, None if grave is None else UUID(grave))
            for one, name, grave in rows
        ]

    def stamp(self, queues: Iterable[UUID]) -> None:
        rows = [(self.version, queue.bytes) for queue in queues]
        self.transaction.executemany(sql("stamp_queues"), rows)
