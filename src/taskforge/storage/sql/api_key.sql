-- One key. $1 id
select id, organization, project, kind, name, prefix, permissions, created_by, created_at,
    expires_at, last_used_at, revoked_at, rotated_to
from taskforge.api_keys
where id = $1
