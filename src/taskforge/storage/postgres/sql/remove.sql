-- Remove every trace of finished jobs. $1 jobs · $2 the queues they are in · $3 only those that
-- finished before this, and without idempotency keys whose time is not over (null: all of them,
-- with their keys) · $4 now (tests)
-- Everything else follows from what was deleted from finished: a job that was retried since it was
-- chosen keeps all it has.
with unfinished as (
    delete from taskforge.finished
    where queue = any ($2::int[]) and job = any ($1::uuid[]) and ($3::timestamptz is null or finished_at < $3)
    returning job, project, queue, status
), tally as (
    insert into taskforge.tally_deltas (project, queue, status, count)
    select project, queue, status, -count(*) from unfinished group by 1, 2, 3
), unexecuted as (
    delete from taskforge.executions where job = any (array(select job from unfinished))
), unlogged as (
    delete from taskforge.logs where job = any (array(select job from unfinished))
), untagged as (
    delete from taskforge.job_tags t using taskforge.jobs j
    where j.id = any (array(select job from unfinished)) and j.tags is not null
      and t.project = j.project and t.tag = any (j.tags) and t.job = j.id
), unkeyed as (
    delete from taskforge.keys where job = any (array(select job from unfinished))
      and ($3::timestamptz is null or scope = 0 or until <= coalesce($4::timestamptz, statement_timestamp()))
)
delete from taskforge.jobs where id = any (array(select job from unfinished))
