-- A token that is neither used nor over. $1 hash of the token · $2 kind · $3 now
select kind, member, organization, family, created_at, expires_at, used_at
from taskforge.tokens
where token = $1 and kind = $2 and used_at is null and expires_at > $3
