from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from taskforge.ports.engine import Engine
from tests.support.schemas import Schemas
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.world import Clock, World


@pytest.fixture(scope="session")
def schemas() -> Schemas:
    return Schemas()


@pytest.fixture(params=["sqlite", "postgres"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, schemas: Schemas
) -> AsyncIterator[Store]:
    """An empty store of each kind; whatever a test did to it, its invariants must hold
    afterwards."""
    left = None if request.node.get_closest_marker("new_store") else schemas
    kinds: dict[str, Callable[[], Store]] = {
        "sqlite": lambda: SqliteStore(tmp_path),
        "postgres": lambda: PostgresStore(request.getfixturevalue("postgres_url"), schemas=left),
        "walled": lambda: PostgresStore(
            request.getfixturevalue("postgres_url"), walled=True, schemas=left
        ),
    }
    made = kinds[request.param]()
    try:
        yield made
        await made.probe.check()
    finally:
        await made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def engine(store: Store, clock: Clock) -> Engine:
    return await store.open(clock)


@pytest.fixture
async def other(store: Store, clock: Clock, engine: Engine) -> Engine:
    """A second engine on the same store: what another process would have."""
    return await store.open(clock)


@pytest.fixture
async def world(store: Store, engine: Engine, clock: Clock) -> World:
    made = World(store, engine, clock)
    await made.queue("default")
    return made
