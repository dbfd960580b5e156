-- Let a key that still works, and was not rotated, end no later than that. $1 id · $2 the key that
-- takes its place · $3 its end · $4 now
update taskforge.api_keys set rotated_to = $2,
    expires_at = case when expires_at < $3 then expires_at else $3 end
where id = $1 and rotated_to is null and revoked_at is null
    and (expires_at is null or expires_at > $4)
