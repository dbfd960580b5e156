-- A token, also one that is used or over. $1 hash of the token · $2 kind
select kind, member, organization, family, created_at, expires_at, used_at
from taskforge.tokens
where token = $1 and kind = $2
