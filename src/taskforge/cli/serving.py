"""The REST API beside a worker, or alone."""

import logging
from collections.abc import Callable

import msgspec

from taskforge.api.dashboard.files import is_built
from taskforge.domain.errors import StoreUnsuitable
from taskforge.ports.engine import AnyEngine
from taskforge.settings import Settings
from taskforge.wiring import Made, make_server

logger = logging.getLogger("taskforge.cli")
_WAYS = ("log in", "API key")


class Serving(msgspec.Struct, frozen=True):
    """A server that has its port, and what the first start made."""

    made: Made
    address: str
    credentials: tuple[str, str] | None

    @property
    def ways_in(self) -> tuple[tuple[str, str], ...]:
        return () if self.credentials is None else tuple(zip(_WAYS, self.credentials, strict=True))

    def lines(self) -> list[str]:
        """What to tell: the address, and once the credentials."""
        told = [f"API on {self.address}/api/v1, described at {self.address}/api/v1/docs"]
        if is_built():
            told.insert(0, f"dashboard on {self.address}/")
        if self.credentials is not None:
            told.append("first start: these are shown once, and never again")
            told += [f"  {name:<9} {value}" for name, value in self.ways_in]
        return told


async def prepare(engine: AnyEngine, settings: Settings, *, or_any: bool) -> Serving:
    """Take the port, and make on the first start what whoever runs it needs to get in."""
    made = await make_server(engine, settings)
    address = made.server.bind(or_any=or_any)
    return Serving(made, address, await made.first_credentials(address))


async def beside(
    engine: AnyEngine, settings: Settings, tell: Callable[[str], None]
) -> Serving | None:
    """For `up`: the API is welcome there, but nothing fails for want of it."""
    try:
        serving = await prepare(engine, settings, or_any=True)
    except StoreUnsuitable as error:
        logger.info("no REST API: %s", error)
        return None
    for line in serving.lines():
        tell(line)
    return serving
