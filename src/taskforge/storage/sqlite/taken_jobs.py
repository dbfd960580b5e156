"""Jobs that a claim took, as their worker gets them."""

from collections.abc import Sequence

from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.job import Claimed, with_extras
from taskforge.storage.catalog import OpenLane
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.codec import SECOND, Row

Taken = tuple[int, bytes, Claimed]
"""A job as the caller gets it, behind what it is sorted by: turn and fence."""


def taken_jobs(lane: OpenLane, rows: Sequence[Row], now: int) -> list[Taken]:
    """Rows of `take.sql` as their worker gets them."""
    queue, kind, priority, settings = (
        lane.queue_name,
        lane.job_type,
        lane.priority,
        lane.settings,
    )
    beat = settings.heartbeat_timeout_seconds
    return [
        (
            turn,
            fence,
            with_extras(
                Claimed(
                    uuid_from_bytes(fence),
                    queue,
                    kind,
                    b"null" if payload is None else payload.encode(),
                    attempt + 1,
                    max_attempts,
                    crashes,
                    priority,
                    settings.timeout_seconds if timeout is None else timeout,
                    beat,
                    None if deadline is None else (deadline - now) / SECOND,
                    (now - turn) / SECOND if now > turn else 0.0,
                    settings,
                    () if tags is None else codec.texts(tags) or (),
                ),
                extras,
            ),
        )
        for (
            fence,
            turn,
            attempt,
            max_attempts,
            crashes,
            timeout,
            deadline,
            tags,
            extras,
            payload,
        ) in rows
    ]
