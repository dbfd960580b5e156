-- Take a one-time token: of two who come together one gets a row. $1 hash of the token · $2 kind ·
-- $3 now
update taskforge.tokens set used_at = $3
where token = $1 and kind = $2 and used_at is null and expires_at > $3
returning kind
