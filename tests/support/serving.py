"""A real server on a real port for each store, two organizations on it, and someone for each role.

A conftest.py takes its fixtures from here: tests/api and tests/integration share them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from taskforge.domain.access import Role
from taskforge.domain.audit import Note
from taskforge.node import Node, server_services
from taskforge.operations.access.first_start import make_key
from taskforge.ports.engine import Engine
from taskforge.settings import Settings
from taskforge.wiring import Made, make_server, make_store
from tests.support.adhoc_statements import step_of
from tests.support.schemas import Databases

SETUP = Note("system", "test.setup", 1)


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """An organization, and a key of it with every right."""

    number: int
    key: str


class Api:
    def __init__(self, made: Made, engine: Engine, address: str, settings: Settings) -> None:
        self.made = made
        self.platform = made.platform
        self.engine = engine
        self.address = address
        self.settings = settings
        self._clients: list[httpx.AsyncClient] = []
        self._running = asyncio.create_task(
            Node(server_services(made.platform), server=made.server).run()
        )

    async def started(self) -> None:
        await asyncio.wait(
            [self._running, asyncio.create_task(self.made.server.started.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )

    async def stop(self) -> None:
        """Stop the server; a second time does nothing."""
        for one in self._clients:
            await one.aclose()
        if not self._running.done():
            self.made.server.stop()
            await self._running
            await self.engine.close()

    def client(self, credential: str | None = None, **options: Any) -> httpx.AsyncClient:
        headers = {} if credential is None else {"authorization": f"Bearer {credential}"}
        # No certificates: reading them takes 40 ms for each client, and nothing here speaks TLS.
        made = httpx.AsyncClient(
            base_url=self.address, headers=headers, timeout=30, verify=False, **options
        )
        self._clients.append(made)
        return made

    async def key(
        self,
        organization: int,
        permissions: list[str],
        project: str | None = None,
        kind: str = "key",
    ) -> str:
        """A key of an organization with just these rights."""
        root = await self.user(organization, Role.OWNER)
        body: dict[str, Any] = {
            "name": f"k{uuid4().hex[:8]}",
            "permissions": permissions,
            "project": project,
            "kind": kind,
        }
        answer = await self.client(root).post("/api/v1/keys", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["secret"])

    async def user(self, organization: int, role: Role) -> str:
        """The access token of a new user in this role."""
        email, password = f"{uuid4().hex[:10]}@example.com", "correct horse battery staple"
        invitation, token = await self.platform.accounts.invite(organization, email, role, SETUP)
        del invitation
        await self.platform.accounts.accept(token, "Someone", password, "-", lambda *_: SETUP)
        user = await self.platform.records.users.with_email(email)
        assert user is not None
        return (await self.platform.accounts.grant(user, organization, SETUP)).access_token

    async def tenant(self, name: str) -> Tenant:
        """A new organization with a key that has every right in it."""
        made = await self.platform.records.organizations.create(name, SETUP)
        self.platform.forget()
        permissions = ["job:*", "queue:*", "worker:*", "project:*", "admin:*"]
        return Tenant(number=made.number, key=await self.key(made.number, permissions))

    async def audit_count(self) -> int:
        return int(
            (await self.engine.write([step_of("select count(*) from taskforge.audit")]))[0][0][0]
        )


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Databases:
    return Databases(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite", "postgres"])
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'api.db'}"
        return
    databases: Databases = request.getfixturevalue("databases")
    async with databases.borrow() as url:
        yield url


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Api]]]:
    """Start a server on a store; all of them stop with the test."""
    served: list[Api] = []

    async def start(url: str, **changes: Any) -> Api:
        settings = Settings(**({"url": url, "port": 0} | changes))
        engine = make_store(settings, walled=True)
        await engine.open()
        made = await make_server(engine, settings)
        address = made.server.bind()
        api = Api(made, engine, address, settings)
        served.append(api)
        await api.started()
        return api

    yield start
    for one in reversed(served):
        await one.stop()


@pytest.fixture
async def api(serve: Callable[..., Awaitable[Api]], store_url: str) -> Api:
    return await serve(store_url)


@pytest.fixture
async def root(api: Api) -> httpx.AsyncClient:
    """A client with every right in the first organization."""
    return api.client(await make_key(api.platform, "root"))
