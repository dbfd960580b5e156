"""Members of an organization, and invitations to it."""

from uuid import UUID

import msgspec
from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from taskforge.api.entry.caller import PUBLIC, Caller, Visitor
from taskforge.api.entry.problems import responses
from taskforge.api.schema.views.members import (
    InvitationView,
    MemberView,
    invitation_view,
    member_view,
)
from taskforge.domain.access import Permission
from taskforge.operations.access import members


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


@get("/members", permission=Permission.ADMIN_READ, tags=["Members"])
async def list_members(caller: NamedDependency[Caller]) -> MemberList:
    """Who belongs to the organization, and in which role."""
    found = await members.list_members(caller.platform, caller.principal)
    return MemberList([member_view(member) for member in found])


@patch(
    "/members/{user_id:uuid}",
    permission=Permission.ADMIN_WRITE,
    tags=["Members"],
    responses=responses(404, 409),
)
async def update_member(
    caller: NamedDependency[Caller], user_id: FromPath[UUID], data: JSONBody[RoleBody]
) -> MemberView:
    """Give a member another role. Only owners appoint or dismiss owners; one always stays."""
    note = caller.note("member.update")
    return member_view(
        await members.change_role(caller.platform, caller.principal, user_id, data.role, note)
    )


@delete(
    "/members/{user_id:uuid}",
    permission=Permission.ADMIN_WRITE,
    tags=["Members"],
    responses=responses(404, 409),
)
async def remove_member(caller: NamedDependency[Caller], user_id: FromPath[UUID]) -> None:
    """Remove a member; their sessions and tokens for this organization end."""
    note = caller.note("member.delete")
    await members.remove_member(caller.platform, caller.principal, user_id, note)


@post(
    "/members/{user_id:uuid}/password-reset",
    permission=Permission.ADMIN_WRITE,
    tags=["Members"],
    responses=responses(404),
)
async def offer_reset(caller: NamedDependency[Caller], user_id: FromPath[UUID]) -> ResetOffer:
    """A one-time token with which a member sets a new password; hand it over on a way that you
    trust."""
    note = caller.note("member.reset")
    return ResetOffer(await members.offer_reset(caller.platform, caller.principal, user_id, note))


@get("/invitations", permission=Permission.ADMIN_READ, tags=["Members"])
async def list_invitations(caller: NamedDependency[Caller]) -> InvitationList:
    """Invitations that nobody accepted yet."""
    found = await members.list_invitations(caller.platform, caller.principal)
    return InvitationList([invitation_view(invitation) for invitation in found])


@post("/invitations", permission=Permission.ADMIN_WRITE, tags=["Members"], responses=responses(409))
async def create_invitation(
    caller: NamedDependency[Caller], data: JSONBody[NewInvitation]
) -> InvitationMade:
    """Invite someone. The token is shown once."""
    note = caller.note("invitation.create")
    made, token = await members.invite(
        caller.platform, caller.principal, data.email, data.role, note
    )
    return InvitationMade(invitation=invitation_view(made), token=token)


@delete(
    "/invitations/{invitation_id:uuid}",
    permission=Permission.ADMIN_WRITE,
    tags=["Members"],
    responses=responses(404),
)
async def delete_invitation(caller: NamedDependency[Caller], invitation_id: FromPath[UUID]) -> None:
    """Withdraw an invitation."""
    note = caller.note("invitation.delete")
    await members.withdraw_invitation(caller.platform, caller.principal, invitation_id, note)


@post(
    "/invitations/accept", permission=PUBLIC, tags=["Members"], responses=responses(401, 409, 429)
)
async def accept_invitation(
    visitor: NamedDependency[Visitor], data: JSONBody[Acceptance]
) -> InvitationView:
    """Join an organization with an invitation's token, and a new password or the one you have. At
    most five tries a minute."""
    note = visitor.note_for("invitation.accept")
    made = await visitor.platform.accounts.accept(
        data.token, data.name, data.password, visitor.origin, note
    )
    return invitation_view(made)


HANDLERS = [
    list_members,
    update_member,
    remove_member,
    offer_reset,
    list_invitations,
    create_invitation,
    delete_invitation,
    accept_invitation,
]
