"""Organizations and their projects: who may change them, and that servers hear of it."""

from uuid import UUID

from taskforge.domain.access import Forbidden, Principal, Role
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.tenancy import (
    Ceiling,
    Organization,
    Project,
    Quota,
    check_ceiling,
    check_email,
    check_name,
    check_quota,
)
from taskforge.operations.platform import Platform


def need_whole_organization(principal: Principal) -> None:
    if principal.project is not None:
        raise Forbidden(
            "this key is bound to a project; its organization's projects and people are not its own"
        )


async def rename_organization(
    platform: Platform, principal: Principal, name: str, note: Note
) -> Organization:
    need_whole_organization(principal)
    name = check_name("name", name)
    old = await platform.records.organizations.get(principal.organization)
    renamed = await platform.records.organizations.rename(old, name, note)
    platform.forget()
    return renamed


async def create_organization(
    platform: Platform, name: str, owner_email: str, note: Note
) -> tuple[Organization, str]:
    """With a project `default`; the token invites its first owner."""
    name, email = check_name("name", name), check_email(owner_email)
    made = await platform.records.organizations.create(name, note)
    platform.forget()
    _, token = await platform.accounts.invite(made.number, email, Role.OWNER, None)
    return made, token


async def set_ceiling(
    platform: Platform, organization: UUID, ceiling: Ceiling, note: Note
) -> Organization:
    """For the platform's owner alone: who may call it is for the route to say."""
    ceiling = check_ceiling(ceiling)
    platform.tenants.forget()
    for known in await platform.tenants.organizations():
        if known.id == organization:
            changed = await platform.records.organizations.set_ceiling(known, ceiling, note)
            platform.forget()
            return changed
    raise NotFound("organization", str(organization))


async def list_projects(platform: Platform, principal: Principal) -> list[Project]:
    """Those that the principal may touch."""
    projects = await platform.tenants.projects_of(principal.organization)
    return [project for project in projects if project.number in principal.projects]


async def create_project(
    platform: Platform, principal: Principal, name: str, quota: Quota, note: Note
) -> Project:
    need_whole_organization(principal)
    name, quota = check_name("name", name), check_quota(quota)
    owner = await platform.records.organizations.get(principal.organization)
    made = await platform.records.projects.create(
        owner.number, name, quota, note, owner.ceiling.projects
    )
    platform.forget()
    return made


async def read_project(platform: Platform, principal: Principal, name: str) -> Project:
    """By name or id, as it is now."""
    known = await platform.tenants.project(principal, name)
    # what is remembered may have a mark that is over
    return await platform.records.projects.get(known.number)


async def find_project_to_change(platform: Platform, principal: Principal, name: str) -> Project:
    platform.tenants.forget()
    return await platform.tenants.project(principal, name)


async def update_project(
    platform: Platform,
    old: Project,
    name: str | None,
    quota: Quota | None,
    note: Note,
    expected_mark: str | None,
) -> Project:
    """What is None stays as it is."""
    name = None if name is None else check_name("name", name)
    quota = None if quota is None else check_quota(quota)
    changed = await platform.records.projects.update(old, name, quota, note, expected_mark)
    platform.forget()
    return changed


async def find_project_to_delete(platform: Platform, principal: Principal, name: str) -> Project:
    need_whole_organization(principal)
    return await platform.tenants.project(principal, name)


async def delete_project(
    platform: Platform, old: Project, note: Note, expected_mark: str | None
) -> None:
    """Only one that was never used."""
    await platform.records.projects.delete(old, note, expected_mark)
    platform.forget()
