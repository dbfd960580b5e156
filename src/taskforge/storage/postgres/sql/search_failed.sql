-- A stretch of the finished jobs of each of some groups of failures, newest first.
-- $1 projects · $2 groups · $3 older than, for each · $4 rows of each · $5 from this id on · $6 types,
-- $7 priorities, $8 queues and $9 statuses, or null · $10 due from and $11 due before, or null
select w.place::int as place, x.looked, x.last, x.ids
from unnest($1::int[], $2::uuid[], $3::uuid[]) with ordinality as w (project, failure, below, place)
cross join lateral (
    select count(*)::int as looked, (array_agg(f.job))[count(*)] as last, array_agg(f.job) filter (where
        ($9::int[] is null or f.status = any ($9)) and ($8::int[] is null or f.queue = any ($8))
        and $10::timestamptz is null and $11::timestamptz is null
        and (($6::text[] is null and $7::int[] is null) or (
            select ($6::text[] is null or j.job_type = any ($6)) and ($7::int[] is null or j.priority = any ($7))
            from taskforge.jobs j where j.id = f.job))
    ) as ids
    from (
        select f.job, f.status, f.queue from taskforge.finished f
        where f.project = w.project and f.failure = w.failure and f.job >= $5::uuid and f.job < w.below
        order by f.job desc limit $4::int
    ) f
) x
