"""Invitations to an organization."""

from datetime import datetime
from functools import partial
from uuid import UUID

from taskforge.domain.access import Role
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.ids import IdMint
from taskforge.domain.tenancy import Invitation
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.members import join_steps
from taskforge.storage.records.rows import first


class Invitations:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

    async def of_organization(self, organization: int) -> list[Invitation]:
        """Those that nobody accepted."""
        return await self._records.look(Invitation, "invitations", organization)

    async def get(self, identifier: UUID) -> Invitation | None:
        """Also one that is over, or another organization's."""
        return first(await self._records.look(Invitation, "invitation", identifier))

    async def with_token(self, token: bytes) -> Invitation | None:
        """An invitation that can still be accepted."""
        now = await self._records.now()
        return first(await self._records.look(Invitation, "open_invitation", token, now))

    async def create(
        self,
        organization: int,
        email: str,
        role: Role,
        token: bytes,
        expires_at: datetime,
        note: Note | None,
    ) -> Invitation:
        """Without a note where it is part of a change that leaves its own."""
        now, identifier = await self._records.now(), self._mint()
        values = (identifier, organization, email, role.value, token, now, expires_at)
        steps = [Step("add_invitation", values)]
        if note is not None:
            target = f"invitation {email} ({identifier})"
            steps.append(audit_step(note, now, target, after={"role": role}))
        await self._records.write(steps)
        return Invitation(identifier, organization, email, role, now, expires_at, None)

    async def withdraw(self, invitation: Invitation, note: Note) -> None:
        now = await self._records.now()
        await self._records.write(
            [
                Step("remove_invitation", (invitation.id,), _gone(invitation)),
                audit_step(note, now, _target(invitation), before={"role": invitation.role}),
            ]
        )

    async def accept(
        self, invitation: Invitation, name: str, password: str | None, note: Note
    ) -> None:
        """`password` is for a new user; whoever is one already keeps theirs."""
        now = await self._records.now()
        await self._records.write(
            [
                Step("accept_invitation", (invitation.id, now), _gone(invitation)),
                *join_steps(
                    self._mint(),
                    invitation.organization,
                    invitation.email,
                    name,
                    invitation.role,
                    password,
                    now,
                ),
                audit_step(note, now, _target(invitation), after={"role": invitation.role}),
            ]
        )


def _target(invitation: Invitation) -> str:
    return f"invitation {invitation.email} ({invitation.id})"


def _gone(invitation: Invitation) -> partial[NotFound]:
    return partial(NotFound, "invitation", str(invitation.id))
