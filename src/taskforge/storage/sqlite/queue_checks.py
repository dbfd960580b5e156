"""What a change to a queue is checked against: the other queues of its project, as the transaction
sees them that changes it."""

from collections.abc import Iterable
from uuid import UUID

from taskforge.domain.errors import Conflict
from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.queue import Queue, QueueSettings, check_dead_letter
from taskforge.storage.catalog import check_name
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.transaction import Transaction


class Changing:
    """One change to the queues of a project."""

    def __init__(self, transaction: Transaction, project: int, version: int) -> None:
        self.transaction = transaction
        self.cache = transaction.catalog_cache
        self.project = project
        self.version = version  # of the project's catalog from now on

    def check_name(self, name: str) -> None:
        bearer = self.cache.find_named(self.cache.of(self.project), name)
        check_name(name, None if bearer is None else bearer.queue)

    def check_dead_letters(self, queue: UUID | None, settings: QueueSettings) -> None:
        target = settings.dead_letter_queue_id
        if target is not None:
            targets = {one: grave for one, _, grave in self._dead_letter_targets(target)}
            check_dead_letter(queue, target, targets)

    def check_buries_nobody(self, queue: Queue) -> None:
        for _, name, grave in self._dead_letter_targets(queue.id):
            if grave == queue.id:
                raise Conflict(
                    f"queue {queue.name!r} is the dead letter queue of {name!r}; change that first"
                )

    def _dead_letter_targets(self, target: UUID) -> list[tuple[UUID, str, UUID | None]]:
        rows = self.transaction.execute(
            sql("dead_letter_targets"), (self.project, target.bytes)
        ).fetchall()
        return [
            (uuid_from_bytes(one), name, None if grave is None else UUID(grave))
            for one, name, grave in rows
        ]

    def stamp_targets(self, before: Queue | None, after: Queue) -> None:
        """Where dead letters went before and where they go from now on, who may take them
        changes."""
        targets = {
            None if queue is None else queue.settings.dead_letter_queue_id
            for queue in (before, after)
        }
        if before is None or len(targets) > 1 or after.deleted_at is not None:
            self.stamp(targets)

    def stamp(self, queues: Iterable[UUID | None]) -> None:
        rows = [(self.version, queue.bytes) for queue in queues if queue is not None]
        self.transaction.executemany(sql("stamp_queues"), rows)
