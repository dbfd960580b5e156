-- When a key was used last. $1 id · $2 now
update taskforge.api_keys set last_used_at = $2 where id = $1
