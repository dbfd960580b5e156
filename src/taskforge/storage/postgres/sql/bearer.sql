-- Other workers that are there and bear a name, or were started under it: by an index for each, as
-- `or` would read all workers of the project. $1 project · $2 name · $3 not this one · $4 now (tests)
select w.id, w.name, w.given_name from (
    select id, name, given_name, lease_until from taskforge.workers where project = $1 and name = $2
    union all
    select id, name, given_name, lease_until from taskforge.workers where project = $1 and given_name = $2
) w
where w.id <> $3 and w.lease_until > coalesce($4::timestamptz, statement_timestamp())
