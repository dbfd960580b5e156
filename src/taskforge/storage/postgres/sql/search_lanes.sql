-- All ready jobs of the lanes that match, where neither the lanes that hold jobs nor those jobs are
-- many: what is rare is found without a walk over all that is ready. Null jobs: they are many. Jobs
-- with a fairness key stand in an index of their own.
-- $1 projects · $2 most lanes · $3 most jobs · $4 types, $5 priorities and $6 queues,
-- or null
with recursive held as (
    select p.number as project, n.lane from unnest($1::int[]) as p (number) cross join lateral (
        (select r.lane from taskforge.ready r where r.project = p.number and r.key is null order by r.lane, r.turn limit 1)
        union all
        (select r.lane from taskforge.ready r where r.project = p.number and r.key is not null order by r.lane, r.key, r.turn limit 1)
        order by lane limit 1
    ) n
    union all
    select h.project, n.lane from held h cross join lateral (
        (select r.lane from taskforge.ready r where r.project = h.project and r.lane > h.lane and r.key is null order by r.lane, r.turn limit 1)
        union all
        (select r.lane from taskforge.ready r
            where r.project = h.project and r.lane > h.lane and r.key is not null order by r.lane, r.key, r.turn limit 1)
        order by lane limit 1
    ) n
), lane as materialized (
    select h.project, h.lane from held h limit $2::int + 1
), job as materialized (
    select j.job from lane h cross join lateral (
        (select r.job from taskforge.ready r where r.project = h.project and r.lane = h.lane and r.key is null limit $3::int + 1)
        union all
        (select r.job from taskforge.ready r where r.project = h.project and r.lane = h.lane and r.key is not null limit $3::int + 1)
    ) j
    where (select count(*) from lane) <= $2 and (
        select ($4::text[] is null or l.job_type = any ($4)) and ($5::int[] is null or l.priority = any ($5))
            and ($6::int[] is null or l.queue = any ($6))
        from taskforge.lanes l where l.number = h.lane)
    limit $3::int + 1
)
select case when (select count(*) from lane) <= $2 and (select count(*) from job) <= $3 then array(select job from job) end as jobs
