import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest

from taskforge.domain.queue import CreateQueue
from taskforge.storage.postgres.engine import PostgresEngine


@pytest.fixture
async def schema(postgres_url: str) -> AsyncIterator[str]:
    name = f"test_{secrets.token_hex(6)}"
    yield name
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(
        f'drop schema if exists "{name}" cascade; drop role if exists "{name}_reader"'
    )
    await connection.close()


@pytest.fixture
async def engine(postgres_url: str, schema: str) -> AsyncIterator[PostgresEngine]:
    engine = PostgresEngine(postgres_url, schema=schema)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="emails"))
    yield engine
    await engine.close()


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()
