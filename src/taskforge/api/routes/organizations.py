"""Organizations, and projects with their quotas."""

from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.etags import IfMatch, mark_in, tagged
from taskforge.api.entry.problems import responses
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.organizations import (
    OrganizationView,
    ProjectView,
    organization_view,
    project_view,
)
from taskforge.domain.access import Permission
from taskforge.domain.tenancy import Ceiling, Quota
from taskforge.operations.access import organizations


class OrganizationBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str


class NewOrganization(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    owner_email: str


class OrganizationEdit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The ceiling is replaced as a whole."""

    ceiling: Ceiling


class OrganizationMade(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    created_at: Time
    invitation_token: str  # shown once, for its first owner


class OrganizationList(msgspec.Struct, frozen=True):
    items: list[OrganizationView]


class ProjectBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    quota: Quota = Quota()


class ProjectEdit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Fields left out stay as they are; a quota is replaced as a whole."""

    name: str | None = None
    quota: Quota | None = None


class ProjectList(msgspec.Struct, frozen=True):
    items: list[ProjectView]


@get("/organization", permission=Permission.PROJECT_READ, tags=["Organization"])
async def get_organization(caller: NamedDependency[Caller]) -> OrganizationView:
    """The organization that your credential belongs to."""
    return organization_view(
        await caller.platform.tenants.organization(caller.principal.organization)
    )


@patch(
    "/organization",
    permission=Permission.ADMIN_WRITE,
    tags=["Organization"],
    responses=responses(409),
)
async def rename_organization(
    caller: NamedDependency[Caller], data: JSONBody[OrganizationBody]
) -> OrganizationView:
    """Give the organization another name."""
    note = caller.note("organization.update")
    return organization_view(
        await organizations.rename_organization(caller.platform, caller.principal, data.name, note)
    )


@get("/organizations", permission=Permission.PLATFORM, tags=["Organization"])
async def list_organizations(caller: NamedDependency[Caller]) -> OrganizationList:
    """Every organization of this server; for the owners of the first one."""
    return OrganizationList(
        [organization_view(one) for one in await caller.platform.tenants.organizations()]
    )


@post(
    "/organizations",
    permission=Permission.PLATFORM,
    tags=["Organization"],
    responses=responses(409),
)
async def create_organization(
    caller: NamedDependency[Caller], data: JSONBody[NewOrganization]
) -> OrganizationMade:
    """Create an organization with a project `default`, and invite its first owner."""
    made, token = await organizations.create_organization(
        caller.platform, data.name, data.owner_email, caller.note("organization.create")
    )
    return OrganizationMade(
        id=made.id, name=made.name, created_at=made.created_at, invitation_token=token
    )


@patch(
    "/organizations/{organization_id:uuid}",
    permission=Permission.PLATFORM,
    tags=["Organization"],
    responses=responses(404),
)
async def update_organization(
    caller: NamedDependency[Caller],
    organization_id: FromPath[UUID],
    data: JSONBody[OrganizationEdit],
) -> OrganizationView:
    """Set an organization's ceiling: what it may have in all its projects. Its own quotas divide
    what is under it."""
    note = caller.note("organization.ceiling")
    return organization_view(
        await organizations.set_ceiling(caller.platform, organization_id, data.ceiling, note)
    )


@get("/projects", permission=Permission.PROJECT_READ, tags=["Projects"])
async def list_projects(caller: NamedDependency[Caller]) -> ProjectList:
    """The projects that your credential may touch, with their quotas."""
    mine = await organizations.list_projects(caller.platform, caller.principal)
    return ProjectList([project_view(project) for project in mine])


@post("/projects", permission=Permission.PROJECT_WRITE, tags=["Projects"], responses=responses(409))
async def create_project(
    caller: NamedDependency[Caller], data: JSONBody[ProjectBody]
) -> Response[ProjectView]:
    """Create a project. Its name is unique in its organization."""
    note = caller.note("project.create")
    made = await organizations.create_project(
        caller.platform, caller.principal, data.name, data.quota, note
    )
    return tagged(project_view(made), made.mark, 201)


@get(
    "/projects/{project:str}",
    permission=Permission.PROJECT_READ,
    tags=["Projects"],
    responses=responses(404),
)
async def get_project(
    caller: NamedDependency[Caller], project: FromPath[str]
) -> Response[ProjectView]:
    """Read a project by name or id."""
    found = await organizations.read_project(caller.platform, caller.principal, project)
    return tagged(project_view(found), found.mark)


@patch(
    "/projects/{project:str}",
    permission=Permission.PROJECT_WRITE,
    tags=["Projects"],
    responses=responses(404, 409, 412),
)
async def update_project(
    caller: NamedDependency[Caller],
    project: FromPath[str],
    data: JSONBody[ProjectEdit],
    if_match: IfMatch = None,
) -> Response[ProjectView]:
    """Change a project's name or quota."""
    old = await organizations.find_project_to_change(caller.platform, caller.principal, project)
    note, expected = caller.note("project.update"), mark_in(if_match)
    made = await organizations.update_project(
        caller.platform, old, data.name, data.quota, note, expected
    )
    return tagged(project_view(made), made.mark)


@delete(
    "/projects/{project:str}",
    permission=Permission.PROJECT_WRITE,
    tags=["Projects"],
    responses=responses(404, 409, 412),
)
async def delete_project(
    caller: NamedDependency[Caller], project: FromPath[str], if_match: IfMatch = None
) -> None:
    """Delete a project that was never used."""
    old = await organizations.find_project_to_delete(caller.platform, caller.principal, project)
    note, expected = caller.note("project.delete"), mark_in(if_match)
    await organizations.delete_project(caller.platform, old, note, expected)


HANDLERS = [
    get_organization,
    rename_organization,
    list_organizations,
    create_organization,
    update_organization,
    list_projects,
    create_project,
    get_project,
    update_project,
    delete_project,
]
