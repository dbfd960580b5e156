"""Organizations. Each begins with a project of its own."""

from functools import partial

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict
from taskforge.domain.ids import IdMint
from taskforge.domain.tenancy import Ceiling, Organization
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.rows import first_or_not_found


class Organizations:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

    async def all(self) -> list[Organization]:
        return await self._records.look(Organization, "organizations")

    async def get(self, number: int) -> Organization:
        found = await self._records.look(Organization, "organization", number)
        return first_or_not_found(found, "organization", str(number))

    async def create(self, name: str, note: Note) -> Organization:
        now, identifier = await self._records.now(), self._mint()
        answers = await self._records.write(
            [
                Step("add_organization", (identifier, name, now), _taken(name)),
                Step("add_first_project", (self._mint(), identifier, now)),
                audit_step(note, now, f"organization {name} ({identifier})", after={"name": name}),
            ]
        )
        return Organization(answers[0][0][0], identifier, name, now)

    async def rename(self, old: Organization, name: str, note: Note) -> Organization:
        now = await self._records.now()
        await self._records.write(
            [
                Step("rename_organization", (old.number, name), _taken(name)),
                audit_step(
                    note,
                    now,
                    f"organization {old.name} ({old.id})",
                    before={"name": old.name},
                    after={"name": name},
                ),
            ]
        )
        return msgspec.structs.replace(old, name=name)

    async def set_ceiling(self, old: Organization, ceiling: Ceiling, note: Note) -> Organization:
        now = await self._records.now()
        limits = msgspec.structs.astuple(ceiling)
        await self._records.write(
            [
                Step("set_ceiling", (old.number, *limits)),
                audit_step(
                    note,
                    now,
                    f"organization {old.name} ({old.id})",
                    before={"ceiling": old.ceiling},
                    after={"ceiling": ceiling},
                ),
            ]
        )
        return Organization(old.number, old.id, old.name, old.created_at, *limits)


def _taken(name: str) -> partial[Conflict]:
    return partial(Conflict, f"organization {name!r} already exists")
