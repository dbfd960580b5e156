-- Revoke a key, once. $1 id · $2 now
update taskforge.api_keys set revoked_at = $2 where id = $1 and revoked_at is null
