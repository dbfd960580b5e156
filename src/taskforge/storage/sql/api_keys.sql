-- The keys of an organization, oldest first. $1 organization
select id, organization, project, kind, name, prefix, permissions, created_by, created_at,
    expires_at, last_used_at, revoked_at, rotated_to
from taskforge.api_keys
where organization = $1
order by created_at, id
