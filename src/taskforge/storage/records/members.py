"""Members of organizations: a user with a role."""

from datetime import datetime
from functools import partial
from uuid import UUID

import msgspec

from taskforge.domain.access import Role
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict
from taskforge.domain.ids import IdMint
from taskforge.domain.tenancy import Member, User
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.users import Users

_LAST_OWNER = partial(Conflict, "an organization keeps at least one owner; appoint another first")


class Members:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

    async def of_organization(self, organization: int) -> list[Member]:
        return await self._records.look(Member, "members", organization)

    async def of_user(self, user: UUID) -> list[Member]:
        """The user's place in each organization."""
        return await self._records.look(Member, "memberships", user)

    async def add(self, organization: int, email: str, name: str, role: Role, note: Note) -> User:
        """A user with a place in an organization; the first owner of a new store begins so."""
        now = await self._records.now()
        await self._records.write(
            [
                *join_steps(self._mint(), organization, email, name, role, None, now),
                audit_step(note, now, f"user {email}", after={"role": role}),
            ]
        )
        user = await Users(self._records).with_email(email)
        assert user is not None
        return user

    async def set_role(self, member: Member, role: Role, note: Note) -> Member:
        now = await self._records.now()
        await self._records.write(
            [
                Step("lock_organization", (member.organization,)),
                Step("set_role", (member.organization, member.user, role.value), _LAST_OWNER),
                audit_step(
                    note,
                    now,
                    f"user {member.email} ({member.user})",
                    before={"role": member.role},
                    after={"role": role},
                ),
            ]
        )
        return msgspec.structs.replace(member, role=role)

    async def remove(self, member: Member, note: Note) -> None:
        """What the user holds for this organization ends with it."""
        now = await self._records.now()
        place = (member.organization, member.user)
        await self._records.write(
            [
                Step("lock_organization", (member.organization,)),
                Step("remove_member", place, _LAST_OWNER),
                Step("remove_tokens_of_member", place),
                audit_step(
                    note, now, f"user {member.email} ({member.user})", before={"role": member.role}
                ),
            ]
        )


def join_steps(
    identifier: UUID,
    organization: int,
    email: str,
    name: str,
    role: Role,
    password: str | None,
    now: datetime,
) -> list[Step]:
    """A place in an organization, for a new user of this id or for whoever has the address
    already."""
    return [
        Step("add_user", (identifier, email, name, password, now)),
        Step(
            "add_member",
            (organization, email, role.value, now),
            partial(Conflict, f"{email} is a member already"),
        ),
    ]
