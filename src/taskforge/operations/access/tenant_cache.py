"""Organizations and projects as a server remembers them: read often, changed rarely, at most two
seconds old.

Where the store gives out a number that is not remembered, another server made what it stands for
since, and all is read again. Only numbers from the store do that: what callers name may not exist,
and would let them have everything read at each request.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from taskforge.domain.access import Forbidden, Principal
from taskforge.domain.errors import Invalid, NotFound, nearest
from taskforge.domain.tenancy import Organization, Project
from taskforge.storage.records.kinds import RecordKinds

STALE_SECONDS = 2.0


class Tenants:
    def __init__(
        self, records: RecordKinds, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = records
        self._monotonic = monotonic
        self._projects: dict[int, Project] = {}
        self._organizations: dict[int, Organization] = {}
        self._until = 0.0
        self._changes = 0
        self._reading = asyncio.Lock()

    @property
    def remembered(self) -> Collection[int]:
        """The numbers of the projects that are known, fresh or not."""
        return self._projects.keys()

    def forget(self) -> None:
        self._until = 0.0
        self._changes += 1

    async def _refresh(self, *projects: int | None, organization: int | None = None) -> None:
        """So that it is not stale, and has these."""
        if self._is_fresh(projects, organization):
            return
        async with self._reading:
            if self._is_fresh(projects, organization):
                return
            until, changes = self._monotonic() + STALE_SECONDS, self._changes
            # An organization comes with a project: read in this order, one that is seen has it.
            organizations = {one.number: one for one in await self._records.organizations.all()}
            self._projects = {one.number: one for one in await self._records.projects.all()}
            self._organizations = organizations
            # else it may have been read before the change
            self._until = until if changes == self._changes else 0.0

    def _is_fresh(self, projects: Iterable[int | None], organization: int | None) -> bool:
        return (
            self._monotonic() < self._until
            and (organization is None or organization in self._organizations)
            and all(number is None or number in self._projects for number in projects)
        )

    async def organization(self, number: int) -> Organization:
        await self._refresh(organization=number)
        if number not in self._organizations:
            raise NotFound("organization", str(number))
        return self._organizations[number]

    async def organizations(self) -> list[Organization]:
        await self._refresh()
        return list(self._organizations.values())

    async def projects_of(self, organization: int, *among: int | None) -> list[Project]:
        """All of them; `among` them are these, which the store names."""
        await self._refresh(*among, organization=organization)
        return [one for one in self._projects.values() if one.organization == organization]

    async def others(self, principal: Principal) -> tuple[int, ...]:
        """The projects that are not the principal's: what is found there by id is forbidden, not
        absent."""
        await self._refresh()
        return tuple(number for number in self._projects if number not in principal.projects)

    async def project(self, principal: Principal, name: str) -> Project:
        """By name within the organization, or by id: another organization's by id is forbidden, by
        name it does not exist."""
        await self._refresh()
        try:
            wanted = UUID(name)
        except ValueError:
            mine = [
                one for one in self._projects.values() if one.organization == principal.organization
            ]
            named = [one for one in mine if one.name == name]
            if not named:
                known = [one.name for one in mine if one.number in principal.projects]
                raise NotFound("project", name, nearest=nearest(name, known)) from None
        else:
            named = [one for one in self._projects.values() if one.id == wanted]
            if not named:
                raise NotFound("project", name)
        if named[0].number not in principal.projects:
            raise Forbidden(f"project {name!r} is not one that {principal.label} may touch")
        return named[0]

    async def numbered(self, number: int) -> Project:
        await self._refresh(number)
        if number not in self._projects:
            raise NotFound("project", str(number))
        return self._projects[number]

    async def meant(self, principal: Principal, name: str | None) -> Project:
        """Where something new goes: the named project, the key's own, or the only one there is."""
        if name is not None:
            return await self.project(principal, name)
        if principal.project is not None:
            return await self.numbered(principal.project)
        if len(principal.projects) == 1:
            return await self.numbered(principal.projects[0])
        names = sorted(
            one.name
            for one in await self.projects_of(principal.organization)
            if one.number in principal.projects
        )
        raise Invalid(
            "project", "is missing, and there are several", f"name one of {', '.join(names)}"
        )
