-- All waiting jobs that are due in a range, where they are not many. Null jobs: they are many.
-- $1 projects · $2 due from · $3 due before, or null · $4 most jobs · $5 types, $6 priorities and $7
-- queues, or null
with due as materialized (
    select r.job, r.project, r.lane from taskforge.waiting r
    where r.due >= coalesce($2::timestamptz, '-infinity') and r.due < coalesce($3::timestamptz, 'infinity')
    order by r.due limit $4::int + 1
)
select case when (select count(*) from due) <= $4 then array(
    select r.job from due r where r.project = any ($1::int[]) and (($5::text[] is null and $6::int[] is null and $7::int[] is null) or (
    select ($5::text[] is null or l.job_type = any ($5)) and ($6::int[] is null or l.priority = any ($6))
        and ($7::int[] is null or l.queue = any ($7))
    from taskforge.lanes l where l.number = r.lane))
) end as jobs
