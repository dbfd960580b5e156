"""Whether the server lives, and whether it can serve."""

import msgspec
from litestar import get
from litestar.di import NamedDependency

from taskforge.api.entry.caller import PUBLIC, Visitor
from taskforge.api.entry.problems import responses
from taskforge.api.schema.values import Time
from taskforge.version import __version__


class Health(msgspec.Struct, frozen=True):
    status: str
    version: str


class Ready(msgspec.Struct, frozen=True):
    status: str
    version: str
    now: Time  # by the store's clock
    late: list[str]
    """Services that should have run by now, and what holds up the upkeep of the store"""


@get("/healthz", permission=PUBLIC, tags=["Health"])
async def healthz() -> Health:
    """The process lives."""
    return Health("alive", __version__)


@get("/readyz", permission=PUBLIC, tags=["Health"], responses=responses(503))
async def readyz(visitor: NamedDependency[Visitor]) -> Ready:
    """The store answers."""
    now = await visitor.platform.engine.now()
    return Ready("ready", __version__, now, visitor.platform.late())


HANDLERS = [healthz, readyz]
