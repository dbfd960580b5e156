-- The invitations of an organization that nobody accepted, newest first. $1 organization
select id, organization, email, role, created_at, expires_at, accepted_at
from taskforge.invitations
where organization = $1 and accepted_at is null
order by created_at desc, id
