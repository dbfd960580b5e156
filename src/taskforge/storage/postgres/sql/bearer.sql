-- Other workers that are there and bear a name, or were started under it. $1 project · $2 name · $3
-- not this one · $4 now (tests)
select id, name, given_name from taskforge.workers
where project = $1 and (name = $2 or given_name = $2) and id <> $3 and lease_until > coalesce($4::timestamptz, statement_timestamp())
