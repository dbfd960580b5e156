-- Append log lines of running executions. $1 fences · $2 epochs · $3 levels · $4 messages · $5
-- metadata · $6 ages in seconds · $7 now (tests)
-- Returns the fences that were lost. Reads `running` under a lock that finish cannot pass, so that
-- no line lands behind the end.
with held as materialized (
    select fence, job, project from taskforge.running where fence = any ($1::uuid[]) for key share
),
told as (
    update taskforge.running r set heartbeat_at = coalesce($7::timestamptz, statement_timestamp()),
        started_at = coalesce(r.started_at, r.claimed_at)
    where r.heartbeat_at is null and r.fence = any (array(select fence from held))
),
lines as (
    insert into taskforge.logs (job, epoch, project, level, message, metadata, logged_at)
    select h.job, i.epoch, h.project, i.level, i.message, i.metadata::json,
        coalesce($7::timestamptz, statement_timestamp()) - make_interval(secs => i.age)
    from unnest($1::uuid[], $2::int[], $3::smallint[], $4::text[], $5::text[], $6::float8[])
        with ordinality as i (fence, epoch, level, message, metadata, age, position)
    full join held h on h.fence = i.fence
    where h.fence is not null
    order by i.position
)
select distinct lost.fence from unnest($1::uuid[]) as lost (fence) where lost.fence not in (select fence from held)
