-- An invitation that can still be accepted. $1 hash of its token · $2 now
select id, organization, email, role, created_at, expires_at, accepted_at
from taskforge.invitations
where token = $1 and accepted_at is null and expires_at > $2
