-- How many slots the workers of a project have that accept jobs, how many of them are free, and how
-- many jobs of these lanes are ready, counted to one more than that. Jobs with a key stand in an
-- index of their own.
-- $1 project · $2 lanes · $3 now (tests)
with free as materialized (
    select coalesce(sum(w.slots), 0)::bigint as slots, coalesce(sum(greatest(0, w.slots - w.stuck_slots - r.running)), 0)::bigint as free
    from (
        select incarnation, coalesce(wished_slots, max_concurrent_jobs) as slots, stuck_slots
        from taskforge.workers
        where project = $1 and lease_until > coalesce($3::timestamptz, statement_timestamp()) and not drain_mode and healthy
    ) w cross join lateral (select count(*) as running from taskforge.running where worker = w.incarnation) r
)
select slots, free, (
    select count(*) from (
        select from taskforge.ready r where r.project = $1 and r.lane = any ($2::int[]) and r.key is null
        union all
        select from taskforge.ready r where r.project = $1 and r.lane = any ($2::int[]) and r.key is not null
        limit (select free + 1 from free)
    ) r
) as ready
from free
