"""Organizations, projects with their quotas, users, memberships and invitations. Every change leaves its audit entry with it."""

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

import msgspec

from taskforge.domain.access import PLATFORM_ORGANIZATION, Role
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, NotFound, Stale, nearest
from taskforge.domain.ids import IdMint
from taskforge.domain.marks import check_same
from taskforge.domain.tenancy import FIRST_PROJECT, Invitation, Member, Organization, Project, Quota, User
from taskforge.storage.cabinet import Cabinet, Step, audited

T = TypeVar("T")
KEYS_AT_ONCE = 500  # SQLite looks for each parameter among all: 10,000 in one statement took half a second


async def home_of(cabinet: Cabinet, name: str) -> int:
    """The project of this name: of the first organization, or of another as `organization/project`."""
    if name == "default":
        return FIRST_PROJECT
    directory = Directory(cabinet)
    projects = await directory.projects()
    organizations = {one.number: one.name for one in await directory.organizations()}  # read after, it has those of all projects
    known = {
        one.name if one.organization == PLATFORM_ORGANIZATION else f"{organizations[one.organization]}/{one.name}": one.number
        for one in projects
    }
    if name not in known:
        raise NotFound("project", name, nearest=nearest(name, known))
    return known[name]


class Exceeded(msgspec.Struct, frozen=True):
    """A quota that has no room in this minute, and when the next one begins."""

    quota: str
    until: datetime


class _Used(msgspec.Struct, frozen=True):
    jobs: int
    bytes: int


class _Key(msgspec.Struct, frozen=True):
    key: str


class Directory:
    def __init__(self, cabinet: Cabinet) -> None:
        self._cabinet = cabinet
        self._mint = IdMint()

    # --- Organizations and projects ---

    async def organizations(self) -> list[Organization]:
        return await self._cabinet.look(
            Organization, "select number, id, name, created_at from taskforge.organizations order by number"
        )

    async def organization(self, number: int) -> Organization:
        statement = "select number, id, name, created_at from taskforge.organizations where number = $1"
        return _one(await self._cabinet.look(Organization, statement, number), "organization", str(number))

    async def create_organization(self, name: str, note: Note) -> Organization:
        now, identifier = await self._cabinet.now(), self._mint()
        taken = partial(Conflict, f"organization {name!r} already exists")
        statement = """
            insert into taskforge.organizations (id, name, created_at) values ($1, $2, $3) on conflict (name) do nothing
            returning number"""
        project = """
            insert into taskforge.projects (id, organization, name, created_at)
            select $1, o.number, 'default', $3 from taskforge.organizations o where o.id = $2"""
        answers = await self._cabinet.write(
            [
                Step(statement, (identifier, name, now), taken),
                Step(project, (self._mint(), identifier, now)),
                audited(note, now, f"organization {name} ({identifier})", after={"name": name}),
            ]
        )
        return Organization(answers[0][0][0], identifier, name, now)

    async def rename_organization(self, old: Organization, name: str, note: Note) -> Organization:
        now = await self._cabinet.now()
        statement = """
            update taskforge.organizations set name = $2
            where number = $1 and not exists (select 1 from taskforge.organizations where name = $2 and number <> $1)"""
        await self._cabinet.write(
            [
                Step(statement, (old.number, name), partial(Conflict, f"organization {name!r} already exists")),
                audited(note, now, f"organization {old.name} ({old.id})", before={"name": old.name}, after={"name": name}),
            ]
        )
        return msgspec.structs.replace(old, name=name)

    async def projects(self) -> list[Project]:
        """All of them: there are few, and whoever asks keeps to those of its principal."""
        return await self._cabinet.look(Project, f"{_PROJECTS} order by p.number")

    async def create_project(self, organization: int, name: str, quota: Quota, note: Note) -> Project:
        now, identifier = await self._cabinet.now(), self._mint()
        statement = """
            insert into taskforge.projects (id, organization, name, created_at) values ($1, $2, $3, $4)
            on conflict (organization, name) do nothing returning number"""
        quotas = """
            insert into taskforge.quotas (project, enqueue_per_minute, pending_jobs, workers, payload_bytes_per_minute)
            select p.number, $2, $3, $4, $5 from taskforge.projects p where p.id = $1"""
        answers = await self._cabinet.write(
            [
                Step(statement, (identifier, organization, name, now), partial(Conflict, f"project {name!r} already exists")),
                Step(quotas, (identifier, *_limits(quota))),
                audited(note, now, f"project {name} ({identifier})", after={"name": name, "quota": quota}),
            ]
        )
        return Project(answers[0][0][0], identifier, organization, name, now, *_limits(quota))

    async def project(self, number: int) -> Project:
        found = await self._cabinet.look(Project, f"{_PROJECTS} where p.number = $1", number)
        return _one(found, "project", str(number))

    async def update_project(
        self, old: Project, name: str | None, quota: Quota | None, note: Note, expected: str | None = None
    ) -> Project:
        """What is None stays as it is. `expected`: the mark of the version that is meant, else whatever is there."""
        old, now = await self.project(old.number), await self._cabinet.now()
        check_same(f"project {old.name!r}", expected, old.mark)
        given = (name, quota)
        name, quota = old.name if name is None else name, old.quota if quota is None else quota
        rename = """
            update taskforge.projects set name = $2 where number = $1
                and not exists (select 1 from taskforge.projects where organization = $3 and name = $2 and number <> $1)"""
        quotas = """
            insert into taskforge.quotas (project, enqueue_per_minute, pending_jobs, workers, payload_bytes_per_minute)
            values ($1, $2, $3, $4, $5) on conflict (project) do update set enqueue_per_minute = excluded.enqueue_per_minute,
                pending_jobs = excluded.pending_jobs, workers = excluded.workers,
                payload_bytes_per_minute = excluded.payload_bytes_per_minute"""
        before, after = {"name": old.name, "quota": old.quota}, {"name": name, "quota": quota}
        steps = [
            _next_version(old),
            Step(rename, (old.number, name, old.organization), partial(Conflict, f"project {name!r} already exists")),
            Step(quotas, (old.number, *_limits(quota))),
            audited(note, now, f"project {old.name} ({old.id})", project=old.number, before=before, after=after),
        ]
        try:
            await self._cabinet.write(steps)
        except Stale:
            if expected is not None:
                raise
            return await self.update_project(old, *given, note)  # of what another has changed, only this is to be changed
        return Project(old.number, old.id, old.organization, name, old.created_at, *_limits(quota), old.version + 1)

    async def delete_project(self, old: Project, note: Note, expected: str | None = None) -> None:
        """Only one that was never used: history belongs to its project."""
        now = await self._cabinet.now()
        if expected is not None:
            old = await self.project(old.number)
            check_same(f"project {old.name!r}", expected, old.mark)
        used = partial(
            Conflict, f"project {old.name!r} has, or had, queues, workers or keys; their history stays readable, so it stays too"
        )
        unused = """
            delete from taskforge.projects where number = $1
                and not exists (select 1 from taskforge.queues where project = $1)
                and not exists (select 1 from taskforge.workers where project = $1)
                and not exists (select 1 from taskforge.api_keys where project = $1)"""
        await self._cabinet.write(
            [
                *([] if expected is None else [_next_version(old)]),
                Step("delete from taskforge.quotas where project = $1", (old.number,)),
                Step("delete from taskforge.quota_usage where project = $1", (old.number,)),
                Step(unused, (old.number,), used),
                audited(note, now, f"project {old.name} ({old.id})", before={"name": old.name}),
            ]
        )

    async def reserve(self, project: int, jobs: int, size: int, quota: Quota) -> datetime | Exceeded:
        """Count jobs about to be enqueued against the present minute, which comes back when there is room."""
        now = await self._cabinet.now()
        minute = now.replace(second=0, microsecond=0)
        statement = """
            insert into taskforge.quota_usage as u (project, since, jobs, bytes) values ($1, $2, $3, $4)
            on conflict (project) do update set since = $2,
                jobs = case when u.since = $2 then u.jobs else 0 end + $3,
                bytes = case when u.since = $2 then u.bytes else 0 end + $4
            where u.since <> $2 or (u.jobs + $3 <= $5 and u.bytes + $4 <= $6) returning jobs"""
        most = (quota.enqueue_per_minute or 2**62, quota.payload_bytes_per_minute or 2**62)
        used = _Used(0, 0)
        if jobs <= most[0] and size <= most[1]:
            answers = await self._cabinet.write([Step(statement, (project, minute, jobs, size, *most))])
            if answers[0]:
                return minute
            usage = "select jobs, bytes from taskforge.quota_usage where project = $1 and since = $2"
            found = await self._cabinet.look(_Used, usage, project, minute)
            if not found:
                return await self.reserve(project, jobs, size, quota)  # another server has begun the next minute
            used = found[0]
        name = "enqueue_per_minute" if used.jobs + jobs > most[0] else "payload_bytes_per_minute"
        return Exceeded(name, minute + timedelta(minutes=1))

    async def release(self, project: int, minute: datetime, jobs: int, size: int) -> None:
        """What was reserved in this minute and not enqueued is no part of it any more."""
        statement = "update taskforge.quota_usage set jobs = jobs - $3, bytes = bytes - $4 where project = $1 and since = $2"
        await self._cabinet.write([Step(statement, (project, minute, jobs, size))])

    async def known_keys(self, project: int, keys: Collection[str]) -> frozenset[str]:
        """Which of these idempotency keys stand for a job."""
        now, found, wanted = await self._cabinet.now(), set[str](), list(keys)
        for start in range(0, len(wanted), KEYS_AT_ONCE):
            some = wanted[start : start + KEYS_AT_ONCE]
            places = ", ".join(f"${place}" for place in range(3, len(some) + 3))
            statement = f"""
                select key from taskforge.keys
                where project = $1 and scope = 1 and (until is null or until > $2) and key in ({places})"""
            found |= {one.key for one in await self._cabinet.look(_Key, statement, project, now, *some)}
        return frozenset(found)

    # --- Users ---

    async def user(self, identifier: UUID) -> User | None:
        found = await self._cabinet.look(User, f"{_USERS} where id = $1", identifier)
        return found[0] if found else None

    async def user_named(self, email: str) -> User | None:
        found = await self._cabinet.look(User, f"{_USERS} where email = $1", email)
        return found[0] if found else None

    async def set_password(self, user: User, password: str, note: Note) -> None:
        """A new password ends every session and token that the old one began."""
        now = await self._cabinet.now()
        await self._cabinet.write(
            [
                Step("update taskforge.users set password = $2, epoch = epoch + 1 where id = $1", (user.id, password)),
                Step("delete from taskforge.tokens where member = $1", (user.id,)),
                audited(note, now, f"user {user.email} ({user.id})", after={"password": "changed"}),
            ]
        )

    # --- Members ---

    async def members(self, organization: int) -> list[Member]:
        return await self._cabinet.look(Member, f"{_MEMBERS} where m.organization = $1 order by u.email", organization)

    async def memberships_of(self, user: UUID) -> list[Member]:
        return await self._cabinet.look(Member, f"{_MEMBERS} where m.member = $1 order by m.organization", user)

    async def add_member(self, organization: int, email: str, name: str, role: Role, note: Note) -> User:
        """A user with a place in an organization; the first owner of a new store begins so."""
        now = await self._cabinet.now()
        await self._cabinet.write(
            [*self._joining(organization, email, name, role, None, now), audited(note, now, f"user {email}", after={"role": role})]
        )
        user = await self.user_named(email)
        assert user is not None
        return user

    def _joining(self, organization: int, email: str, name: str, role: Role, password: str | None, now: datetime) -> list[Step]:
        user = """
            insert into taskforge.users (id, email, name, password, created_at) values ($1, $2, $3, $4, $5)
            on conflict (email) do nothing"""
        member = """
            insert into taskforge.memberships (organization, member, role, created_at)
            select $1, u.id, $3, $4 from taskforge.users u where u.email = $2 on conflict (organization, member) do nothing"""
        return [
            Step(user, (self._mint(), email, name, password, now)),
            Step(member, (organization, email, role.value, now), partial(Conflict, f"{email} is a member already")),
        ]

    async def set_role(self, member: Member, role: Role, note: Note) -> Member:
        now = await self._cabinet.now()
        statement = f"update taskforge.memberships set role = $3 where organization = $1 and member = $2 and {_NOT_THE_LAST_OWNER}"
        await self._cabinet.write(
            [
                _locked(member.organization),
                Step(statement, (member.organization, member.user, role.value), _LAST_OWNER),
                audited(note, now, f"user {member.email} ({member.user})", before={"role": member.role}, after={"role": role}),
            ]
        )
        return msgspec.structs.replace(member, role=role)

    async def remove_member(self, member: Member, note: Note) -> None:
        """What the user holds for this organization ends with it."""
        now = await self._cabinet.now()
        statement = f"delete from taskforge.memberships where organization = $1 and member = $2 and {_NOT_THE_LAST_OWNER}"
        await self._cabinet.write(
            [
                _locked(member.organization),
                Step(statement, (member.organization, member.user), _LAST_OWNER),
                Step("delete from taskforge.tokens where organization = $1 and member = $2", (member.organization, member.user)),
                audited(note, now, f"user {member.email} ({member.user})", before={"role": member.role}),
            ]
        )

    # --- Invitations ---

    async def invitations(self, organization: int) -> list[Invitation]:
        statement = f"{_INVITATIONS} where organization = $1 and accepted_at is null order by created_at desc, id"
        return await self._cabinet.look(Invitation, statement, organization)

    async def invite(
        self, organization: int, email: str, role: Role, token: bytes, expires_at: datetime, note: Note | None
    ) -> Invitation:
        """Without a note where it is part of a change that leaves its own."""
        now, identifier = await self._cabinet.now(), self._mint()
        statement = """
            insert into taskforge.invitations (id, organization, email, role, token, created_at, expires_at)
            values ($1, $2, $3, $4, $5, $6, $7)"""
        await self._cabinet.write(
            [
                Step(statement, (identifier, organization, email, role.value, token, now, expires_at)),
                *([] if note is None else [audited(note, now, f"invitation {email} ({identifier})", after={"role": role})]),
            ]
        )
        return Invitation(identifier, organization, email, role, now, expires_at, None)

    async def invitation_with(self, identifier: UUID) -> Invitation | None:
        """Also one that is over, or another organization's."""
        found = await self._cabinet.look(Invitation, f"{_INVITATIONS} where id = $1", identifier)
        return found[0] if found else None

    async def withdraw(self, invitation: Invitation, note: Note) -> None:
        now = await self._cabinet.now()
        gone = partial(NotFound, "invitation", str(invitation.id))
        await self._cabinet.write(
            [
                Step("delete from taskforge.invitations where id = $1 and accepted_at is null", (invitation.id,), gone),
                audited(note, now, f"invitation {invitation.email} ({invitation.id})", before={"role": invitation.role}),
            ]
        )

    async def invitation(self, token: bytes) -> Invitation | None:
        """An invitation that can still be accepted."""
        statement = f"{_INVITATIONS} where token = $1 and accepted_at is null and expires_at > $2"
        found = await self._cabinet.look(Invitation, statement, token, await self._cabinet.now())
        return found[0] if found else None

    async def accept(self, invitation: Invitation, name: str, password: str | None, note: Note) -> None:
        """`password` is for a new user; whoever is one already keeps theirs."""
        now = await self._cabinet.now()
        gone = partial(NotFound, "invitation", str(invitation.id))
        statement = "update taskforge.invitations set accepted_at = $2 where id = $1 and accepted_at is null and expires_at > $2"
        await self._cabinet.write(
            [
                Step(statement, (invitation.id, now), gone),
                *self._joining(invitation.organization, invitation.email, name, invitation.role, password, now),
                audited(note, now, f"invitation {invitation.email} ({invitation.id})", after={"role": invitation.role}),
            ]
        )


_PROJECTS = """
select p.number, p.id, p.organization, p.name, p.created_at, q.enqueue_per_minute, q.pending_jobs, q.workers,
    q.payload_bytes_per_minute, p.version
from taskforge.projects p left join taskforge.quotas q on q.project = p.number
"""
_USERS = "select id, email, name, password, epoch, created_at, disabled_at from taskforge.users"
_MEMBERS = """
select m.organization, m.member, u.email, u.name, m.role, m.created_at
from taskforge.memberships m join taskforge.users u on u.id = m.member
"""
_INVITATIONS = "select id, organization, email, role, created_at, expires_at, accepted_at from taskforge.invitations"
_NOT_THE_LAST_OWNER = """(role <> 'owner'
    or (select count(*) from taskforge.memberships o where o.organization = $1 and o.role = 'owner') > 1)"""
_LAST_OWNER = partial(Conflict, "an organization keeps at least one owner; appoint another first")


def _locked(organization: int) -> Step:
    """Changes of one organization's owners happen one after the other."""
    return Step("update taskforge.organizations set name = name where number = $1", (organization,))


def _next_version(old: Project) -> Step:
    """Goes before every change of a project that was read: it is refused if the project is another by now."""
    stale = partial(Stale, f"project {old.name!r} was changed since it was read; read it again")
    return Step(
        "update taskforge.projects set version = version + 1 where number = $1 and version = $2", (old.number, old.version), stale
    )


def _limits(quota: Quota) -> tuple[int | None, int | None, int | None, int | None]:
    return quota.enqueue_per_minute, quota.pending_jobs, quota.workers, quota.payload_bytes_per_minute


def _one(found: list[T], kind: str, name: str) -> T:
    if not found:
        raise NotFound(kind, name)
    return found[0]
