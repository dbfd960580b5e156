"""What every route works with: the engine, the accounts, and what is remembered of both."""

import secrets
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, Self

from taskforge.api.feed import Feed
from taskforge.api.oidc import Fetch, Provider
from taskforge.operations.access_tokens import AccessTokens
from taskforge.operations.accounts import Accounts
from taskforge.operations.gatekeeper import Gatekeeper
from taskforge.operations.keys import Keys
from taskforge.operations.passwords import Passwords
from taskforge.operations.places import Places
from taskforge.operations.quotas import Quotas
from taskforge.operations.tenants import Tenants
from taskforge.operations.worker_desk import WorkerDesk
from taskforge.settings import Settings
from taskforge.storage.directory import Directory
from taskforge.storage.engine import Engine
from taskforge.storage.journal import Journal
from taskforge.storage.keyring import Keyring


class Backend:
    def __init__(
        self,
        engine: Engine,
        cabinet: Any,
        key: bytes,
        settings: Settings,
        clock: Callable[[], datetime],
        fetch: Fetch | None = None,
    ) -> None:
        """`cabinet` is the same store as `engine`, through the other of its two protocols; `fetch` is how to reach the provider of
        single sign-on, where there is one."""
        self.engine = engine
        self.settings = settings
        self.directory = Directory(cabinet)
        self.keyring = Keyring(cabinet)
        self.journal = Journal(cabinet)
        self.tenants = Tenants(self.directory)
        self.quotas = Quotas(engine, self.directory)
        tokens = AccessTokens(key, clock)
        self.gatekeeper = Gatekeeper(self.directory, self.keyring, self.tenants, tokens, clock)
        self.accounts = Accounts(self.directory, self.keyring, Passwords(), tokens, key, self.forget, clock)
        # A thousand workers may wait with one key; of streams, each browser and program needs few.
        most = settings.max_connections
        waiting = Places("waiting claims", most // 2, most * 3 // 5)
        self.streams = Places("streams of events", most // 40, most // 10)
        self.desk = WorkerDesk(engine, self.tenants, self.quotas, waiting, settings.lease_seconds)
        self.feed = Feed(engine, self.forget_projects)
        self.keys = Keys(self.keyring, self.forget, clock)
        self.provider = None if fetch is None else Provider(settings, fetch, key, clock)

    def end_waits(self) -> None:
        """The server stops: claims that wait and streams of events end now, instead of holding it up until it breaks them off."""
        self.desk.claims.close()
        self.feed.close()

    def forget(self) -> None:
        """After a change of accounts: it holds here at once, on other servers within two seconds."""
        self.tenants.forget()
        self.gatekeeper.forget()

    def forget_projects(self) -> Collection[int]:
        known = self.tenants.remembered
        self.forget()
        return known

    @classmethod
    async def open(
        cls,
        engine: Engine,
        cabinet: Any,
        settings: Settings,
        clock: Callable[[], datetime] | None = None,
        fetch: Fetch | None = None,
    ) -> Self:
        """With the signing key from the settings, or the one that the servers of this store share."""
        key = settings.secret.encode() if settings.secret else await Keyring(cabinet).secret("signing", secrets.token_bytes(32))
        return cls(engine, cabinet, key, settings, clock or (lambda: datetime.now(UTC)), fetch)
