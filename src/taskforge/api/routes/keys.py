"""API keys and worker keys."""

from uuid import UUID

import msgspec
from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.problems import responses
from taskforge.api.schema.views.keys import KeyView, key_view
from taskforge.domain.access import Forbidden, Permission
from taskforge.domain.errors import NotFound
from taskforge.domain.tenancy import ApiKey


class NewKey(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    kind: str = "key"
    """key, or worker: a worker's key can do a worker's work (worker:run) in its project and nothing
    else"""
    permissions: list[str] = []
    """Such as job:read or job:*; nobody gives away more than they have"""
    project: str | None = None
    """A project's name or id; without it the key reaches every project of the organization"""
    expires_in_days: float | None = None


class RotateBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    overlap_seconds: float = 3600.0
    """How long the old secret goes on working"""


class KeyMade(msgspec.Struct, frozen=True):
    key: KeyView
    secret: str  # shown once


class KeyList(msgspec.Struct, frozen=True):
    items: list[KeyView]


@get("/keys", permission=Permission.ADMIN_READ, tags=["Keys"])
async def list_keys(caller: NamedDependency[Caller]) -> KeyList:
    """The organization's keys, without their secrets."""
    found = await _reachable(caller)
    names = await caller.project_names(*(one.project for one in found))
    return KeyList([key_view(one, names) for one in found])


@post("/keys", permission=Permission.ADMIN_WRITE, tags=["Keys"], responses=responses(404))
async def create_key(caller: NamedDependency[Caller], data: JSONBody[NewKey]) -> KeyMade:
    """Create a key. Its secret is in this answer and nowhere else."""
    project = None if data.project is None else await caller.project(data.project)
    key, secret = await caller.platform.keys.create(
        caller.principal,
        project,
        data.name,
        data.kind,
        data.permissions,
        data.expires_in_days,
        caller.note("key.create"),
    )
    return KeyMade(key_view(key, await caller.project_names(key.project)), secret)


@get(
    "/keys/{key_id:uuid}", permission=Permission.ADMIN_READ, tags=["Keys"], responses=responses(404)
)
async def get_key(caller: NamedDependency[Caller], key_id: FromPath[UUID]) -> KeyView:
    """Read a key, without its secret."""
    found = await _key(caller, key_id)
    return key_view(found, await caller.project_names(found.project))


@post(
    "/keys/{key_id:uuid}/rotate",
    permission=Permission.ADMIN_WRITE,
    tags=["Keys"],
    responses=responses(404, 409),
)
async def rotate_key(
    caller: NamedDependency[Caller],
    key_id: FromPath[UUID],
    data: JSONBody[RotateBody | None] = None,
) -> KeyMade:
    """A new key with the same rights; the old one works on for a while, and is not rotated
    again."""
    old = await _key(caller, key_id)
    overlap = (data or RotateBody()).overlap_seconds
    key, secret = await caller.platform.keys.rotate(
        caller.principal, old, overlap, caller.note("key.rotate")
    )
    return KeyMade(key_view(key, await caller.project_names(key.project)), secret)


@delete(
    "/keys/{key_id:uuid}",
    permission=Permission.ADMIN_WRITE,
    tags=["Keys"],
    responses=responses(404, 409),
)
async def revoke_key(caller: NamedDependency[Caller], key_id: FromPath[UUID]) -> None:
    """Revoke a key: here at once, on other servers within seconds."""
    await caller.platform.keys.revoke(await _key(caller, key_id), caller.note("key.revoke"))


async def _reachable(caller: Caller) -> list[ApiKey]:
    found = await caller.platform.records.api_keys.of_organization(caller.principal.organization)
    if caller.principal.project is None:
        return found
    return [one for one in found if one.project == caller.principal.project]


async def _key(caller: Caller, key_id: UUID) -> ApiKey:
    for one in await _reachable(caller):
        if one.id == key_id:
            return one
    if await caller.platform.records.api_keys.get(key_id) is not None:
        raise Forbidden(f"key {key_id} is not one that {caller.principal.label} may touch")
    raise NotFound("key", str(key_id))


HANDLERS = [list_keys, create_key, get_key, rotate_key, revoke_key]
