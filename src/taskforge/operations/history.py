"""All that a job's log holds, read page by page."""

from collections.abc import Sequence
from uuid import UUID

from taskforge.domain.log import Level, Line
from taskforge.storage.engine import Engine

PAGE = 1_000


async def history(engine: Engine, projects: Sequence[int], job: UUID, *, most: int = 10_000) -> list[Line]:
    """The first `most` lines of a job, the ends of its executions among them, oldest first."""
    lines: list[Line] = []
    after = 0
    while len(lines) < most:
        wanted = min(PAGE, most - len(lines))
        page = await engine.logs(projects, job, least=Level.TRACE, after=after, limit=wanted, offset=0)
        lines += page
        if len(page) < wanted:
            break
        after = page[-1].id
    return lines
