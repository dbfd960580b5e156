-- Remove every trace of finished jobs. $1 jobs · $2 their queues
with unfinished as (
    delete from taskforge.finished f using unnest($1::uuid[], $2::int[]) as x (job, queue)
    where f.queue = x.queue and f.job = x.job and f.queue = any ($2::int[]) and f.job = any ($1::uuid[])
    returning f.project, f.queue, f.status
), tally as (
    insert into taskforge.tally_deltas (project, queue, status, count)
    select project, queue, status, -count(*) from unfinished group by 1, 2, 3
), unexecuted as (
    delete from taskforge.executions where job = any ($1::uuid[])
), unlogged as (
    delete from taskforge.logs where job = any ($1::uuid[])
), untagged as (
    delete from taskforge.job_tags t using taskforge.jobs j
    where j.id = any ($1::uuid[]) and j.tags is not null and t.project = j.project and t.tag = any (j.tags) and t.job = j.id
), unkeyed as (
    delete from taskforge.keys where job = any ($1::uuid[])
)
delete from taskforge.jobs where id = any ($1::uuid[])
