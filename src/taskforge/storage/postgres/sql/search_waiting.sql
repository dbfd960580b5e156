-- A stretch of all jobs that wait for their time, newest first. Whose they are is asked of each row: a bound on
-- rows must count those of others, too.
-- $1 projects · $2 older than · $3 rows · $4 from this id on · $5 types, $6 priorities and $7 queues,
-- or null · $8 due from and $9 due before, or null
select 1 as place, count(*)::int as looked, (array_agg(r.job))[count(*)] as last, array_agg(r.job) filter (where
    r.project = any ($1::int[]) and (($5::text[] is null and $6::int[] is null and $7::int[] is null) or (
        select ($5::text[] is null or l.job_type = any ($5)) and ($6::int[] is null or l.priority = any ($6))
            and ($7::int[] is null or l.queue = any ($7))
        from taskforge.lanes l where l.number = r.lane))
    and ($8::timestamptz is null or r.due >= $8) and ($9::timestamptz is null or r.due < $9)
) as ids
from (
    select r.job, r.project, r.lane, r.due from taskforge.waiting r
    where r.fence >= $4::uuid and r.fence < $2::uuid order by r.fence desc limit $3::int
) r
