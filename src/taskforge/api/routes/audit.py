"""The audit log: its entries for each organization, its head and its check for the platform."""

from typing import Annotated

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.routes.queues import Limit
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.audit import AuditView, audit_view
from taskforge.domain.access import Forbidden, Permission
from taskforge.domain.audit_chain import ChainCheck, Head


class AuditList(msgspec.Struct, frozen=True):
    items: list[AuditView]
    next_before: int | None  # pass it as `before` for older ones; null: that was all


class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """The last seal of the log. What is kept of it elsewhere shows a log that was cut or
    replaced."""

    head: str | None  # to be given to a verification; None: nothing is sealed yet
    seal: int | None
    key: str | None  # the id of the key that made it; None: without a key
    sealed_at: Time | None


@get("/audit", permission=Permission.ADMIN_READ, tags=["Audit"])
async def list_audit(
    caller: NamedDependency[Caller],
    limit: Limit = 50,
    before: Annotated[
        int | None, QueryParameter(ge=1, le=2**62, description="Only entries before this number")
    ] = None,
    action: FromQuery[str | None] = None,
    actor: FromQuery[str | None] = None,
    target: Annotated[
        str | None,
        QueryParameter(
            description="Only what was done to something that has this id, or this in its name"
        ),
    ] = None,
) -> AuditList:
    """Who changed what, newest first."""
    _whole_organization(caller)
    organization = caller.principal.organization
    found = await caller.platform.records.audit_log.entries(
        organization, before=before, limit=limit, action=action, actor=actor, target=target
    )
    names = await caller.project_names()
    return AuditList(
        [audit_view(one, names) for one in found],
        found[-1].organization_number if len(found) == limit else None,
    )


@get("/audit/head", permission=Permission.PLATFORM, tags=["Audit"])
async def get_audit_head(caller: NamedDependency[Caller]) -> AuditHead:
    """The last seal of the log, to be kept outside the store and given to a later verification."""
    seal = await caller.platform.records.audit_seals.head()
    if seal is None:
        return AuditHead(head=None, seal=None, key=None, sealed_at=None)
    return AuditHead(
        head=str(Head.of(seal)), seal=seal.number, key=seal.key or None, sealed_at=seal.at
    )


@get("/audit/verification", permission=Permission.PLATFORM, tags=["Audit"])
async def verify_audit(
    caller: NamedDependency[Caller],
    head: Annotated[
        str | None,
        QueryParameter(
            description="A head that was exported before: it must be part of the chain",
            pattern="^[1-9][0-9]{0,17}:[0-9a-f]{64}$",
        ),
    ] = None,
) -> ChainCheck:
    """Compute the log's chain of seals anew. The log is one for all organizations: for the owners
    of the first one."""
    exported = None if head is None else Head.parse(head)
    return await caller.platform.audit_heads.verify(exported)


def _whole_organization(caller: Caller) -> None:
    if caller.principal.project is not None:
        raise Forbidden("this key is bound to a project; the audit log is the organization's")


HANDLERS = [list_audit, get_audit_head, verify_audit]
