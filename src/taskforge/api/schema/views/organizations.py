"""Organizations and projects, as callers see them."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.tenancy import Ceiling, Organization, Project, Quota


class OrganizationView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    ceiling: Ceiling
    created_at: Time


class ProjectView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    quota: Quota
    created_at: Time


def organization_view(organization: Organization) -> OrganizationView:
    return OrganizationView(
        id=organization.id,
        name=organization.name,
        ceiling=organization.ceiling,
        created_at=organization.created_at,
    )


def project_view(project: Project) -> ProjectView:
    return ProjectView(
        id=project.id, name=project.name, quota=project.quota, created_at=project.created_at
    )
