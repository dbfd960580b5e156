"""Members and invitations, as callers see them."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.tenancy import Invitation, Member


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    email: str
    name: str
    role: str
    created_at: Time


class InvitationView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    email: str
    role: str
    created_at: Time
    expires_at: Time


def member_view(member: Member) -> MemberView:
    return MemberView(
        id=member.user,
        email=member.email,
        name=member.name,
        role=member.role.value,
        created_at=member.created_at,
    )


def invitation_view(invitation: Invitation) -> InvitationView:
    return InvitationView(
        id=invitation.id,
        email=invitation.email,
        role=invitation.role.value,
        created_at=invitation.created_at,
        expires_at=invitation.expires_at,
    )
