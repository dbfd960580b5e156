"""Organizations, projects with their quotas, members and invitations."""

from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from taskforge.api.caller import PUBLIC, Caller, Visitor
from taskforge.api.etags import IfMatch, mark_in, tagged
from taskforge.api.problems import responses
from taskforge.api.views import (
    InvitationView,
    MemberView,
    OrganizationView,
    ProjectView,
    Time,
    invitation_view,
    member_view,
    organization_view,
    project_view,
)
from taskforge.domain.access import ROLE_PERMISSIONS, Forbidden, Permission, Role, parse_role
from taskforge.domain.tenancy import Member, Quota, check_email, check_name, check_quota


class OrganizationBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str


class NewOrganization(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    owner_email: str


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


class MemberList(msgspec.Struct, frozen=True):
    items: list[MemberView]


class RoleBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    role: str


class NewInvitation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    email: str
    role: str


class InvitationMade(msgspec.Struct, frozen=True, kw_only=True):
    invitation: InvitationView
    token: str  # shown once; whoever has it may join


class InvitationList(msgspec.Struct, frozen=True):
    items: list[InvitationView]


class Acceptance(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    token: str
    name: str
    password: str


class ResetOffer(msgspec.Struct, frozen=True):
    token: str  # shown once; whoever has it sets the password


# --- Organizations ---


@get("/organization", permission=Permission.PROJECT_READ, tags=["Organization"])
async def get_organization(caller: NamedDependency[Caller]) -> OrganizationView:
    """The organization that your credential belongs to."""
    return organization_view(await caller.backend.tenants.organization(caller.principal.organization))


@patch("/organization", permission=Permission.ADMIN_WRITE, tags=["Organization"], responses=responses(409))
async def rename_organization(caller: NamedDependency[Caller], data: JSONBody[OrganizationBody]) -> OrganizationView:
    """Give the organization another name."""
    _whole_organization(caller)
    name = check_name("name", data.name)
    old = await caller.backend.directory.organization(caller.principal.organization)
    made = await caller.backend.directory.rename_organization(old, name, caller.note("organization.update"))
    caller.backend.forget()
    return organization_view(made)


@get("/organizations", permission=Permission.PLATFORM, tags=["Organization"])
async def list_organizations(caller: NamedDependency[Caller]) -> OrganizationList:
    """Every organization of this server; for the owners of the first one."""
    return OrganizationList([organization_view(one) for one in await caller.backend.tenants.organizations()])


@post("/organizations", permission=Permission.PLATFORM, tags=["Organization"], responses=responses(409))
async def create_organization(caller: NamedDependency[Caller], data: JSONBody[NewOrganization]) -> OrganizationMade:
    """Create an organization with a project `default`, and invite its first owner."""
    name, email = check_name("name", data.name), check_email(data.owner_email)
    made = await caller.backend.directory.create_organization(name, caller.note("organization.create"))
    caller.backend.forget()
    _, token = await caller.backend.accounts.invite(made.number, email, Role.OWNER, None)
    return OrganizationMade(id=made.id, name=made.name, created_at=made.created_at, invitation_token=token)


# --- Projects ---


@get("/projects", permission=Permission.PROJECT_READ, tags=["Projects"])
async def list_projects(caller: NamedDependency[Caller]) -> ProjectList:
    """The projects that your credential may touch, with their quotas."""
    mine = await caller.backend.tenants.projects_of(caller.principal.organization)
    return ProjectList([project_view(one) for one in mine if one.number in caller.principal.projects])


@post("/projects", permission=Permission.PROJECT_WRITE, tags=["Projects"], responses=responses(409))
async def create_project(caller: NamedDependency[Caller], data: JSONBody[ProjectBody]) -> Response[ProjectView]:
    """Create a project. Its name is unique in its organization."""
    _whole_organization(caller)
    name, quota = check_name("name", data.name), check_quota(data.quota)
    note = caller.note("project.create")
    made = await caller.backend.directory.create_project(caller.principal.organization, name, quota, note)
    caller.backend.forget()
    return tagged(project_view(made), made.mark, 201)


@get("/projects/{project:str}", permission=Permission.PROJECT_READ, tags=["Projects"], responses=responses(404))
async def get_project(caller: NamedDependency[Caller], project: FromPath[str]) -> Response[ProjectView]:
    """Read a project by name or id."""
    known = await caller.backend.tenants.project(caller.principal, project)
    found = await caller.backend.directory.project(known.number)  # what is remembered may have an ETag that is over
    return tagged(project_view(found), found.mark)


@patch("/projects/{project:str}", permission=Permission.PROJECT_WRITE, tags=["Projects"], responses=responses(404, 409, 412))
async def update_project(
    caller: NamedDependency[Caller], project: FromPath[str], data: JSONBody[ProjectEdit], if_match: IfMatch = None
) -> Response[ProjectView]:
    """Change a project's name or quota."""
    caller.backend.tenants.forget()
    old = await caller.backend.tenants.project(caller.principal, project)
    name = None if data.name is None else check_name("name", data.name)
    quota = None if data.quota is None else check_quota(data.quota)
    note, expected = caller.note("project.update"), mark_in(if_match)
    made = await caller.backend.directory.update_project(old, name, quota, note, expected)
    caller.backend.forget()
    return tagged(project_view(made), made.mark)


@delete("/projects/{project:str}", permission=Permission.PROJECT_WRITE, tags=["Projects"], responses=responses(404, 409, 412))
async def delete_project(caller: NamedDependency[Caller], project: FromPath[str], if_match: IfMatch = None) -> None:
    """Delete a project that was never used."""
    _whole_organization(caller)
    old = await caller.backend.tenants.project(caller.principal, project)
    await caller.backend.directory.delete_project(old, caller.note("project.delete"), mark_in(if_match))
    caller.backend.forget()


# --- Members ---


@get("/members", permission=Permission.ADMIN_READ, tags=["Members"])
async def list_members(caller: NamedDependency[Caller]) -> MemberList:
    """Who belongs to the organization, and in which role."""
    _whole_organization(caller)
    return MemberList([member_view(one) for one in await caller.backend.directory.members(caller.principal.organization)])


@patch("/members/{user_id:uuid}", permission=Permission.ADMIN_WRITE, tags=["Members"], responses=responses(404, 409))
async def update_member(caller: NamedDependency[Caller], user_id: FromPath[UUID], data: JSONBody[RoleBody]) -> MemberView:
    """Give a member another role. Only owners appoint or dismiss owners; one always stays."""
    role = parse_role(data.role)
    member = await _member(caller, user_id)
    _no_more_than_own(caller, role, member.role)
    made = await caller.backend.directory.set_role(member, role, caller.note("member.update"))
    caller.backend.forget()
    return member_view(made)


@delete("/members/{user_id:uuid}", permission=Permission.ADMIN_WRITE, tags=["Members"], responses=responses(404, 409))
async def remove_member(caller: NamedDependency[Caller], user_id: FromPath[UUID]) -> None:
    """Remove a member; their sessions and tokens for this organization end."""
    member = await _member(caller, user_id)
    _no_more_than_own(caller, member.role)
    await caller.backend.directory.remove_member(member, caller.note("member.delete"))
    caller.backend.forget()


@post("/members/{user_id:uuid}/password-reset", permission=Permission.ADMIN_WRITE, tags=["Members"], responses=responses(404))
async def offer_reset(caller: NamedDependency[Caller], user_id: FromPath[UUID]) -> ResetOffer:
    """A one-time token with which a member sets a new password; hand it over on a way that you trust."""
    member = await _member(caller, user_id)
    _no_more_than_own(caller, member.role)
    if len(await caller.backend.directory.memberships_of(user_id)) > 1:
        raise Forbidden("this user belongs to other organizations too; only they themselves can reset their password")
    return ResetOffer(await caller.backend.accounts.offer_reset(member, caller.note("member.reset")))


# --- Invitations ---


@get("/invitations", permission=Permission.ADMIN_READ, tags=["Members"])
async def list_invitations(caller: NamedDependency[Caller]) -> InvitationList:
    """Invitations that nobody accepted yet."""
    _whole_organization(caller)
    return InvitationList(
        [invitation_view(one) for one in await caller.backend.directory.invitations(caller.principal.organization)]
    )


@post("/invitations", permission=Permission.ADMIN_WRITE, tags=["Members"], responses=responses(409))
async def create_invitation(caller: NamedDependency[Caller], data: JSONBody[NewInvitation]) -> InvitationMade:
    """Invite someone. The token is shown once."""
    _whole_organization(caller)
    role = parse_role(data.role)
    _no_more_than_own(caller, role)
    note = caller.note("invitation.create")
    made, token = await caller.backend.accounts.invite(caller.principal.organization, data.email, role, note)
    return InvitationMade(invitation=invitation_view(made), token=token)


@delete("/invitations/{invitation_id:uuid}", permission=Permission.ADMIN_WRITE, tags=["Members"], responses=responses(404))
async def delete_invitation(caller: NamedDependency[Caller], invitation_id: FromPath[UUID]) -> None:
    """Withdraw an invitation."""
    _whole_organization(caller)
    for one in await caller.backend.directory.invitations(caller.principal.organization):
        if one.id == invitation_id:
            await caller.backend.directory.withdraw(one, caller.note("invitation.delete"))
            return
    found = await caller.backend.directory.invitation_with(invitation_id)
    elsewhere = found is not None and found.organization != caller.principal.organization
    raise caller.absent("invitation", invitation_id, elsewhere)


@post("/invitations/accept", permission=PUBLIC, tags=["Members"], responses=responses(401, 409, 429))
async def accept_invitation(visitor: NamedDependency[Visitor], data: JSONBody[Acceptance]) -> InvitationView:
    """Join an organization with an invitation's token, and a new password or the one you have. At most five tries a minute."""
    note = visitor.note_for("invitation.accept")
    made = await visitor.backend.accounts.accept(data.token, data.name, data.password, visitor.origin, note)
    return invitation_view(made)


def _no_more_than_own(caller: Caller, *roles: Role) -> None:
    """Nobody hands out, takes over or takes away a role that may do more than they themselves."""
    if Role.OWNER in roles and not caller.principal.is_owner:
        raise Forbidden("only an owner can do this to owners")
    beyond = {one for role in roles for one in ROLE_PERMISSIONS[role]} - caller.principal.permissions
    if beyond:
        raise Forbidden(f"{caller.principal.label} does not have all that this role may: {', '.join(sorted(beyond))}")


def _whole_organization(caller: Caller) -> None:
    if caller.principal.project is not None:
        raise Forbidden("this key is bound to a project; its organization's projects and people are not its own")


async def _member(caller: Caller, user_id: UUID) -> Member:
    _whole_organization(caller)
    for one in await caller.backend.directory.members(caller.principal.organization):
        if one.user == user_id:
            return one
    elsewhere = await caller.backend.directory.user(user_id) is not None
    raise caller.absent("user", user_id, elsewhere)


HANDLERS = [
    get_organization,
    rename_organization,
    list_organizations,
    create_organization,
    list_projects,
    create_project,
    get_project,
    update_project,
    delete_project,
    list_members,
    update_member,
    remove_member,
    offer_reset,
    list_invitations,
    create_invitation,
    delete_invitation,
    accept_invitation,
]
