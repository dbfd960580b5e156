-- A stretch of the finished jobs of each of some queues, newest first, that did not succeed, for whom there is a smaller index.
-- $1 queues · $2 older than, for each · $3 rows of each · $4 from this id on · $5 types and $6
-- priorities, or null · $7 statuses
select w.place::int as place, x.looked, x.last, x.ids
from unnest($1::int[], $2::uuid[]) with ordinality as w (queue, below, place)
cross join lateral (
    select count(*)::int as looked, (array_agg(f.job))[count(*)] as last, array_agg(f.job) filter (where
        f.status = any ($7::int[]) and (($5::text[] is null and $6::int[] is null) or (
            select ($5::text[] is null or j.job_type = any ($5)) and ($6::int[] is null or j.priority = any ($6))
            from taskforge.jobs j where j.id = f.job))
    ) as ids
    from (
        select f.job, f.status from taskforge.finished f
        where f.queue = w.queue and f.job >= $4::uuid and f.job < w.below and f.status <> 3
        order by f.job desc limit $3::int
    ) f
) x
