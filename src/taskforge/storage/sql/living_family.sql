-- A row if a login still has a token that holds. $1 family · $2 now
select 1 as count from taskforge.tokens
where family = $1 and used_at is null and expires_at > $2
limit 1
