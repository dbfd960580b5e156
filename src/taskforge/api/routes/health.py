"""Whether the server lives, and whether it can serve."""

import msgspec
from litestar import get
from litestar.di import NamedDependency

from taskforge.api.caller import PUBLIC, Visitor
from taskforge.api.problems import responses
from taskforge.api.views import Time
from taskforge.version import __version__


class Health(msgspec.Struct, frozen=True):
    status: str
    version: str


class Ready(msgspec.Struct, frozen=True):
    status: str
    version: str
    now: Time  # by the store's clock


@get("/healthz", permission=PUBLIC, tags=["Health"])
async def healthz() -> Health:
    """The process lives."""
    return Health("alive", __version__)


@get("/readyz", permission=PUBLIC, tags=["Health"], responses=responses(503))
async def readyz(visitor: NamedDependency[Visitor]) -> Ready:
    """The store answers."""
    return Ready("ready", __version__, await visitor.backend.engine.now())


HANDLERS = [healthz, readyz]
