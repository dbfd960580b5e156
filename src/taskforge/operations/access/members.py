"""Members, invitations and offered resets. Nobody hands out, takes over or takes away a role that
may do more than they themselves."""

from uuid import UUID

from taskforge.domain.access import ROLE_PERMISSIONS, Forbidden, Principal, Role, parse_role
from taskforge.domain.audit import Note
from taskforge.domain.tenancy import Invitation, Member
from taskforge.operations.access.organizations import need_whole_organization
from taskforge.operations.lookup import absence
from taskforge.operations.platform import Platform


async def list_members(platform: Platform, principal: Principal) -> list[Member]:
    need_whole_organization(principal)
    return await platform.records.members.of_organization(principal.organization)


async def change_role(
    platform: Platform, principal: Principal, user: UUID, role_name: str, note: Note
) -> Member:
    """Only owners appoint or dismiss owners; one always stays."""
    role = parse_role(role_name)
    member = await _find_member(platform, principal, user)
    _need_as_much(principal, role, member.role)
    changed = await platform.records.members.set_role(member, role, note)
    platform.forget()
    return changed


async def remove_member(platform: Platform, principal: Principal, user: UUID, note: Note) -> None:
    member = await _find_member(platform, principal, user)
    _need_as_much(principal, member.role)
    await platform.records.members.remove(member, note)
    platform.forget()


async def offer_reset(platform: Platform, principal: Principal, user: UUID, note: Note) -> str:
    """A one-time token with which a member sets a new password."""
    member = await _find_member(platform, principal, user)
    _need_as_much(principal, member.role)
    if len(await platform.records.members.of_user(user)) > 1:
        raise Forbidden(
            "this user belongs to other organizations too; only they themselves can reset their "
            "password"
        )
    return await platform.accounts.offer_reset(member, note)


async def list_invitations(platform: Platform, principal: Principal) -> list[Invitation]:
    need_whole_organization(principal)
    return await platform.records.invitations.of_organization(principal.organization)


async def invite(
    platform: Platform, principal: Principal, email: str, role_name: str, note: Note
) -> tuple[Invitation, str]:
    """The invitation, and the token of it that is shown once."""
    need_whole_organization(principal)
    role = parse_role(role_name)
    _need_as_much(principal, role)
    return await platform.accounts.invite(principal.organization, email, role, note)


async def withdraw_invitation(
    platform: Platform, principal: Principal, identifier: UUID, note: Note
) -> None:
    need_whole_organization(principal)
    for invitation in await platform.records.invitations.of_organization(principal.organization):
        if invitation.id == identifier:
            await platform.records.invitations.withdraw(invitation, note)
            return
    known = await platform.records.invitations.get(identifier)
    elsewhere = known is not None and known.organization != principal.organization
    raise absence(principal, "invitation", identifier, elsewhere)


def _need_as_much(principal: Principal, *roles: Role) -> None:
    if Role.OWNER in roles and not principal.is_owner:
        raise Forbidden("only an owner can do this to owners")
    beyond = {
        permission for role in roles for permission in ROLE_PERMISSIONS[role]
    } - principal.permissions
    if beyond:
        raise Forbidden(
            f"{principal.label} does not have all that this role may: {', '.join(sorted(beyond))}"
        )


async def _find_member(platform: Platform, principal: Principal, user: UUID) -> Member:
    need_whole_organization(principal)
    for member in await platform.records.members.of_organization(principal.organization):
        if member.user == user:
            return member
    elsewhere = await platform.records.users.get(user) is not None
    raise absence(principal, "user", user, elsewhere)
