"""What Prometheus scrapes."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency

from taskforge.api.entry.caller import Caller
from taskforge.domain.access import Permission
from taskforge.operations.scraping import gather_metrics
from taskforge.telemetry.exposition import CONTENT_TYPE, render


@get(
    "/metrics",
    permission=Permission.QUEUE_READ,
    tags=["Metrics"],
    media_type=CONTENT_TYPE,
)
async def scrape(caller: NamedDependency[Caller]) -> Response[Any]:
    """What Prometheus scrapes, with an API key that has `queue:read` as its bearer token: the
    queues and workers of the projects that the key may touch. Every server of a store tells the
    same. Beyond 200 queues those with the fewest jobs are left out, and `taskforge_left_out` says
    how many."""
    names = await caller.project_names()
    projects = {number: names[number] for number in caller.principal.projects if number in names}
    families = await gather_metrics(caller.platform.engine, projects, caller.platform.late())
    return Response(render(families), media_type=CONTENT_TYPE)


HANDLERS = [scrape]
