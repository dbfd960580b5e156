-- A stretch of the dead letters of each of some groups of failures, newest first: those that have not
-- ended since.
-- $1 projects · $2 groups · $3 older than, for each · $4 rows of each · $5 from this id on · $6 types,
-- $7 priorities, $8 queues and $9 statuses, or null · $10 due from and $11 due before, or null
select w.place::int as place, x.looked, x.last, x.ids
from unnest($1::int[], $2::uuid[], $3::uuid[]) with ordinality as w (project, failure, below, place)
cross join lateral (
    select count(*)::int as looked, (array_agg(b.id))[count(*)] as last, array_agg(b.id) filter (where
        ($6::text[] is null or b.job_type = any ($6)) and ($7::int[] is null or b.priority = any ($7)) and ($8::int[] is null or b.queue = any ($8))
        and (select j.status in (0, 1, 2) and ($9::int[] is null or j.status = any ($9))
                and ($10::timestamptz is null or j.due >= $10) and ($11::timestamptz is null or j.due < $11)
            from taskforge.jobs_now j where j.id = b.id)
    ) as ids
    from (
        select b.id, b.job_type, b.priority, b.queue from taskforge.jobs b
        where b.project = w.project and b.buried_failure = w.failure and b.id >= $5::uuid and b.id < w.below
        order by b.id desc limit $4::int
    ) b
) x
