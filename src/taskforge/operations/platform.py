"""What a server and an admin command work with: the engine, the accounts, and what is remembered of
both."""

import logging
import secrets
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Self

from taskforge.domain.errors import StoreUnsuitable
from taskforge.domain.urls import is_loopback
from taskforge.operations.access.access_tokens import AccessTokens
from taskforge.operations.access.accounts import Accounts
from taskforge.operations.access.gatekeeper import Gatekeeper
from taskforge.operations.access.keys import Keys
from taskforge.operations.access.oidc import Fetch, IdentityProvider
from taskforge.operations.access.passwords import Passwords
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.operations.audit import AuditHeads, seal_keys
from taskforge.operations.events import Feed
from taskforge.operations.limits.ceilings import Ceilings
from taskforge.operations.limits.connection_limits import AddressShares, Places
from taskforge.operations.limits.queue_ceilings import QueueCeilings
from taskforge.operations.limits.quotas import Quotas
from taskforge.operations.limits.worker_quotas import WorkerQuotas
from taskforge.operations.scaling import StoreScaling
from taskforge.operations.scaling_signal import ScalingSignals
from taskforge.operations.work.server_upkeep import ServerUpkeep
from taskforge.operations.work.worker_desk import WorkerDesk
from taskforge.ports.engine import Engine
from taskforge.settings import Settings
from taskforge.storage.records.kinds import RecordKinds
from taskforge.storage.records.shared_secrets import SharedSecrets

logger = logging.getLogger("taskforge.api")


class Platform:
    def __init__(
        self,
        engine: Engine,
        key: bytes,
        settings: Settings,
        clock: Callable[[], datetime],
        fetch: Fetch | None = None,
    ) -> None:
        """`fetch` is how to reach the provider of single sign-on, where there is one."""
        self.engine = engine
        self.settings = settings
        self.records = RecordKinds(engine, seal_keys(settings), settings.opened)
        self.tenants = Tenants(self.records)
        ceilings = Ceilings(self.records.ceiling_usage, self.records.stored_bytes, self.tenants)
        self.quotas = Quotas(engine, self.records.quota_usage, self.tenants, ceilings)
        self.queue_ceilings = QueueCeilings(engine, self.tenants)
        workers = WorkerQuotas(engine, self.tenants)
        tokens = AccessTokens(key, clock)
        self.gatekeeper = Gatekeeper(self.records, self.tenants, tokens, clock)
        self.accounts = Accounts(self.records, Passwords(), tokens, key, self.forget, clock)
        # A thousand workers may wait with one key; of streams, each browser and program needs few.
        most = settings.max_connections
        waiting = Places("waiting claims", most // 2, most * 3 // 5)
        self.shares = AddressShares(
            settings.connections_per_address or most // 2, of_workers=most * 3 // 5
        )
        self.streams = Places("streams of events", most // 40, most // 10)
        self.desk = WorkerDesk(
            engine, self.tenants, workers, ceilings, waiting, settings.lease_seconds
        )
        self.signals = ScalingSignals(engine, self.records.scaling)
        self.scaling = StoreScaling(engine, settings.providers)
        self.feed = Feed(engine, self.forget_projects)
        self.audit_heads = AuditHeads(self.records.audit_seals, settings)
        self.upkeep = ServerUpkeep(
            self.records.audit_seals,
            self.audit_heads,
            self.gatekeeper,
            self.desk,
            audit_days=settings.audit_days,
        )
        self.keys = Keys(self.records.api_keys, self.forget, clock)
        self.provider = None if fetch is None else IdentityProvider(settings, fetch, key, clock)
        # the services of this process that are late; a node says so
        self.late: Callable[[], list[str]] = list

    def end_waits(self) -> None:
        """The server stops: claims that wait and streams of events end now, instead of holding it
        up until it breaks them off."""
        self.desk.claims.close()
        self.feed.close()

    def forget(self) -> None:
        """After a change of accounts: it holds here at once, on other servers within two
        seconds."""
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
        settings: Settings,
        clock: Callable[[], datetime] | None = None,
        fetch: Fetch | None = None,
    ) -> Self:
        """With the signing key from the settings, or the one that the servers of this store
        share."""
        key = (
            settings.secret.encode()
            if settings.secret
            else await SharedSecrets(engine).get_or_add("signing", secrets.token_bytes(32))
        )
        return cls(engine, key, settings, clock or (lambda: datetime.now(UTC)), fetch)


async def check_safe(engine: Engine, host: str) -> None:
    """A server that others can reach does not run with the database's superuser: that walks through
    every wall."""
    if not await engine.is_superuser():
        return
    if is_loopback(host):
        logger.warning(
            "connected to PostgreSQL as a superuser; use a role of its own before others can "
            "reach this server"
        )
        return
    raise StoreUnsuitable(
        "the server would connect to PostgreSQL as a superuser, past every wall; use a role of "
        "its own, or listen on 127.0.0.1"
    )
