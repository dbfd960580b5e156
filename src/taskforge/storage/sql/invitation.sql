-- One invitation, also one that is over. $1 id
select id, organization, email, role, created_at, expires_at, accepted_at
from taskforge.invitations
where id = $1
