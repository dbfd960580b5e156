-- Take keys for new jobs; one that is held stays with its holder unless its time is over. Returns
-- every holder.
-- $1 project · $2 scopes · $3 keys · $4 jobs · $5 body hashes · $6 seconds to hold (null: until the
-- job is done) · $7 now (tests)
insert into taskforge.keys as k (project, scope, key, job, body, until)
select $1, x.scope, x.key, x.job, x.body, coalesce($7::timestamptz, clock_timestamp()) + make_interval(secs => x.hold)
from unnest($2::smallint[], $3::text[], $4::uuid[], $5::bytea[], $6::float8[]) as x (scope, key, job, body, hold)
order by x.scope, x.key
on conflict (project, scope, key) do update set
    job = case when k.until <= coalesce($7::timestamptz, clock_timestamp()) then excluded.job else k.job end,
    body = case when k.until <= coalesce($7::timestamptz, clock_timestamp()) then excluded.body else k.body end,
    until = case when k.until <= coalesce($7::timestamptz, clock_timestamp()) then excluded.until else k.until end
returning scope, key, job, body
