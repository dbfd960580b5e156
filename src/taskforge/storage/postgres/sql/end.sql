-- End: jobs that are over (succeeded, failed, cancelled) leave running; history, tallies, rollups and an event are appended.
-- $1 fences · $2 statuses · $3 seconds the handler ran (null: not known) · $4 results · $5 errors · $6 reasons ·
-- $7 bucket bounds in ms · $8 now (tests)
-- Deleting by `fence = any($1)` alone keeps the plan an index scan; the rest is joined to what came back. A success stands even when a
-- cancel came first: the work is done.
with clock as materialized (
    select coalesce($8::timestamptz, statement_timestamp()) as now
),
gone as (
    delete from taskforge.running where fence = any ($1::uuid[]) returning *
),
ended as materialized (
    select g.*, i.status, i.result, i.error, i.reason, l.queue, c.now,
        case when i.ran is null then g.started_at else c.now - make_interval(secs => i.ran) end as began,
        greatest(0, extract(epoch from g.claimed_at) * 1e3 - g.turn / 1e3)::float8 as wait_ms,
        greatest(0, coalesce(i.ran, extract(epoch from c.now - coalesce(g.started_at, g.claimed_at))) * 1e3)::float8 as duration_ms
    from gone g
    join unnest($1::uuid[], $2::smallint[], $3::float8[], $4::text[], $5::text[], $6::text[])
        as i (fence, status, ran, result, error, reason) on i.fence = g.fence
    join taskforge.lanes l on l.number = g.lane
    cross join clock c
),
history as (
    insert into taskforge.finished (job, queue, project, status, epoch, attempt, max_attempts, crashes, worker, claimed_at,
        started_at, finished_at, result, error, reason, progress, message)
    select job, queue, project, status, ('x' || right(fence::text, 6))::bit(24)::int, attempt, max_attempts, crashes, worker, claimed_at,
        began, now, result::json, error::json, reason, progress, message
    from ended
),
tally as (
    insert into taskforge.tally_deltas (project, queue, status, count)
    select project, queue, status, count(*) from ended group by 1, 2, 3
),
rollup as (
    insert into taskforge.rollup_deltas (project, queue, lane, worker, minute, status, duration_bucket, wait_bucket, count, duration_ms, wait_ms)
    select project, queue, lane, worker, date_trunc('minute', max(now)), status,
        width_bucket(duration_ms, $7::float8[]), width_bucket(wait_ms, $7::float8[]), count(*), sum(duration_ms), sum(wait_ms)
    from ended group by project, queue, lane, worker, status, 7, 8
),
event as (
    insert into taskforge.outbox (project, topic, queue, jobs, at)
    select project, 'job.' || (array['succeeded', 'failed', 'cancelled'])[status - 2], queue, array_agg(job), max(now)
    from ended group by project, queue, status
),
freed as (
    delete from taskforge.keys where scope = 0 and job = any (array(select job from ended where keyed))
)
select lost.fence from unnest($1::uuid[]) as lost (fence) where lost.fence not in (select fence from gone)
