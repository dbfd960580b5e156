-- A stretch of the jobs with each of some tags, newest first. Where a job stands is looked up only if
-- the filter asks for it.
-- $1 projects · $2 tags · $3 older than, for each · $4 rows of each · $5 from this id on · $6 types,
-- $7 priorities, $8 queues and $9 statuses, or null · $10 due from and $11 due before, or null
select w.place::int as place, x.looked, x.last, x.ids
from unnest($1::int[], $2::text[], $3::uuid[]) with ordinality as w (project, tag, below, place)
cross join lateral (
    select count(*)::int as looked, (array_agg(t.job))[count(*)] as last, array_agg(t.job) filter (where
        (($6::text[] is null and $7::int[] is null and $8::int[] is null) or (
            select ($6::text[] is null or j.job_type = any ($6)) and ($7::int[] is null or j.priority = any ($7))
                and ($8::int[] is null or j.queue = any ($8))
            from taskforge.jobs j where j.id = t.job))
        and ($9::int[] is null or (
            select j.status = any ($9) and ($10::timestamptz is null or j.due >= $10) and ($11::timestamptz is null or j.due < $11)
            from taskforge.jobs_now j where j.id = t.job))
    ) as ids
    from (
        select t.job from taskforge.job_tags t
        where t.project = w.project and t.tag = w.tag and t.job >= $5::uuid and t.job < w.below
        order by t.job desc limit $4::int
    ) t
) x
