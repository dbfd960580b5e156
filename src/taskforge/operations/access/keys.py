"""API keys and worker keys. Nobody gives away more than they have; a secret is shown once and
stored as a hash."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from taskforge.domain import rules
from taskforge.domain.access import (
    WORKER_PERMISSIONS,
    Forbidden,
    Permission,
    Principal,
    parse_permissions,
)
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid
from taskforge.domain.tenancy import ApiKey, Project, check_name
from taskforge.operations.access import secret
from taskforge.storage.records.api_keys import ApiKeys

KINDS = ("key", "worker")


class Keys:
    def __init__(
        self, api_keys: ApiKeys, forget: Callable[[], None], clock: Callable[[], datetime]
    ) -> None:
        self._api_keys = api_keys
        self._forget = forget
        self._clock = clock

    async def create(
        self,
        principal: Principal,
        project: Project | None,
        name: str,
        kind: str,
        permissions: Iterable[str],
        expires_in_days: float | None,
        note: Note,
    ) -> tuple[ApiKey, str]:
        check_name("name", name)
        rules.choice("kind", kind, KINDS)
        if kind == "worker":
            granted = WORKER_PERMISSIONS
            if project is None:
                raise Invalid(
                    "project", "is missing", "a worker key belongs to one project; name it"
                )
        else:
            granted = parse_permissions(tuple(permissions))
        self._check_own(principal, granted)
        if project is None and principal.project is not None:
            raise Forbidden("a key that is bound to a project can make keys for that project only")
        expires = None
        if expires_in_days is not None:
            expires = self._clock() + timedelta(
                days=rules.number("expires_in_days", expires_in_days, 0.001, 3_650)
            )
        made = secret.fresh(secret.WORKER_KEY if kind == "worker" else secret.API_KEY)
        key = await self._api_keys.create(
            principal.organization,
            None if project is None else project.number,
            kind,
            name,
            secret.visible(made),
            secret.hashed(made),
            granted,
            expires,
            note,
        )
        return key, made

    @staticmethod
    def _check_own(principal: Principal, granted: frozenset[Permission]) -> None:
        beyond = granted - principal.permissions
        if beyond:
            raise Forbidden(
                f"{principal.label} cannot give away what it does not have: "
                f"{', '.join(sorted(beyond))}"
            )

    async def rotate(
        self, principal: Principal, old: ApiKey, overlap_seconds: float, note: Note
    ) -> tuple[ApiKey, str]:
        """A new secret for the same rights; the old one works on for a while, so that both can be
        out at once."""
        self._check_own(principal, old.permissions)
        seconds = rules.number("overlap_seconds", overlap_seconds, 0, 30 * 86_400)
        made = secret.fresh(secret.WORKER_KEY if old.kind == "worker" else secret.API_KEY)
        until = self._clock() + timedelta(seconds=seconds)
        key = await self._api_keys.rotate(
            old, secret.visible(made), secret.hashed(made), until, note
        )
        self._forget()
        return key, made

    async def revoke(self, old: ApiKey, note: Note) -> None:
        await self._api_keys.revoke(old, note)
        self._forget()
