-- A stretch of all jobs, newest first, for projects of more queues than are walked one by one.
-- Whose they are is asked of each row: a bound on rows must count those of others, too.
-- $1 projects · $2 older than · $3 rows · $4 from this id on · $5 types, $6 priorities and $7 queues,
-- or null
select 1 as place, count(*)::int as looked, (array_agg(j.id))[count(*)] as last, array_agg(j.id) filter (where
    j.project = any ($1::int[]) and ($5::text[] is null or j.job_type = any ($5)) and ($6::int[] is null or j.priority = any ($6))
    and ($7::int[] is null or j.queue = any ($7))
) as ids
from (
    select j.id, j.project, j.queue, j.job_type, j.priority from taskforge.jobs j
    where j.id >= $4::uuid and j.id < $2::uuid order by j.id desc limit $3::int
) j
