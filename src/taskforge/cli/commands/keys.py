"""taskforge keys … and taskforge login-link: for whoever has the store in hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from taskforge.cli.failure import CommandError
from taskforge.cli.selection import listed
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import clock, emit, table
from taskforge.domain.access import KEY_PERMISSIONS, PLATFORM_ORGANIZATION, system
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.tenancy import ApiKey, check_email
from taskforge.wiring import make_platform

if TYPE_CHECKING:
    from taskforge.operations.platform import Platform

app = App(name="keys", help="Create, list and revoke API keys and worker keys.")


@app.command
async def create(
    name: str,
    /,
    *,
    permissions: Annotated[
        str | None,
        Parameter(help="A list with commas, such as job:read,queue:*; else every right."),
    ] = None,
    worker: Annotated[
        bool,
        Parameter(
            help="A key for a worker: it can do a worker's work in its project and nothing else."
        ),
    ] = False,
    project: Annotated[
        str | None, Parameter(help="Only this project; a worker's key needs one, else `default`.")
    ] = None,
    expires_in_days: Annotated[
        float | None, Parameter(help="After so many days it is over.")
    ] = None,
    store: Store = STORE,
) -> None:
    """Create a key. Its secret is printed once."""
    wanted = listed("--permissions", permissions, "job:read,queue:*") or sorted(KEY_PERMISSIONS)
    async with _platform(store) as platform:
        principal = system(
            one.number for one in await platform.tenants.projects_of(PLATFORM_ORGANIZATION)
        )
        owner = project or ("default" if worker else None)
        found = None if owner is None else await platform.tenants.project(principal, owner)
        kind = "worker" if worker else "key"
        key, secret = await platform.keys.create(
            principal, found, name, kind, wanted, expires_in_days, _note("key.create")
        )
    if store.json:
        emit(
            {
                "id": key.id,
                "name": key.name,
                "kind": key.kind,
                "secret": secret,
                "permissions": sorted(key.permissions),
            }
        )
    else:
        console().print(f"{key.kind} {key.name}: {secret}", soft_wrap=True)
        console().print(
            "it is shown once; send it as `Authorization: Bearer …`", style="bright_black"
        )


@app.command(name="list")
async def list_(*, store: Store = STORE) -> None:
    """List keys, without their secrets."""
    async with _platform(store) as platform:
        keys = await platform.records.api_keys.of_organization(PLATFORM_ORGANIZATION)
    if store.json:
        emit({"keys": [_shape(key) for key in keys]})
        return
    columns = ("key", "kind", "name", "permissions", "created", "last used", "state")
    rows = table(*columns, flexible=("permissions",), spare=("created", "kind"), whole=("key",))
    for key in keys:
        state = "revoked" if key.revoked_at is not None else "active"
        used = clock(key.last_used_at) or "never"
        rows.add_row(
            key.prefix + "…",
            key.kind,
            key.name,
            ", ".join(sorted(key.permissions)),
            clock(key.created_at),
            used,
            state,
        )
    console().print(rows)


@app.command
async def revoke(
    prefix: Annotated[str, Parameter(help="The first letters of the key, or its id.")],
    /,
    *,
    store: Store = STORE,
) -> None:
    """Revoke a key: it ends within seconds."""
    async with _platform(store) as platform:
        keys = [
            key
            for key in await platform.records.api_keys.of_organization(PLATFORM_ORGANIZATION)
            if prefix == str(key.id) or key.prefix.startswith(prefix[:12])
        ]
        if not keys:
            raise NotFound("key", prefix)
        if len(keys) > 1:
            raise CommandError(
                f"{len(keys)} keys begin with {prefix!r}",
                "give more of it, or the id (`taskforge keys list --json`)",
            )
        await platform.keys.revoke(keys[0], _note("key.revoke"))
    if store.json:
        emit({"revoked": keys[0].id})
    else:
        console().print(f"{keys[0].name} ({keys[0].prefix}…) is revoked")


async def login_link(
    email: Annotated[
        str, Parameter(help="Whom it logs in; an owner is made where there is none.")
    ] = "owner@localhost",
    /,
    *,
    store: Store = STORE,
) -> None:
    """Print a one-time link that logs in without a password."""
    async with _platform(store) as platform:
        secret = await platform.accounts.login_secret(
            check_email(email), PLATFORM_ORGANIZATION, _note("login.offer")
        )
        settings = platform.settings
        link = f"{settings.public_url or f'http://{settings.host}:{settings.port}'}/login?token={secret}"
    if store.json:
        emit({"login_link": link, "email": email})
    else:
        console().print(link, soft_wrap=True)


@asynccontextmanager
async def _platform(store: Store) -> AsyncIterator["Platform"]:
    async with opened(store) as engine:
        yield await make_platform(engine, store.settings)


def _note(action: str) -> Note:
    """The log says that it was done from here."""
    return Note("system:cli", action, PLATFORM_ORGANIZATION)


def _shape(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "prefix": key.prefix,
        "kind": key.kind,
        "name": key.name,
        "permissions": sorted(key.permissions),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "last_used_at": key.last_used_at,
        "revoked_at": key.revoked_at,
        "rotated_to": key.rotated_to,
    }
