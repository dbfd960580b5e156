"""Users: who can log in, whichever organizations they are members of."""

from uuid import UUID

from taskforge.domain.audit import Note
from taskforge.domain.tenancy import User
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.rows import first


class Users:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def get(self, identifier: UUID) -> User | None:
        return first(await self._records.look(User, "user", identifier))

    async def with_email(self, email: str) -> User | None:
        return first(await self._records.look(User, "user_with_email", email))

    async def set_password(self, user: User, password: str, note: Note) -> None:
        """A new password ends every session and token that the old one began."""
        now = await self._records.now()
        await self._records.write(
            [
                Step("set_password", (user.id, password)),
                Step("remove_tokens_of_user", (user.id,)),
                audit_step(
                    note, now, f"user {user.email} ({user.id})", after={"password": "changed"}
                ),
            ]
        )
