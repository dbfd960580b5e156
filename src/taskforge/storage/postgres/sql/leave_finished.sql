-- Finished jobs are to live again: their last executions join the earlier ones, and they no longer
-- count as finished.
-- $1 jobs · $2 their queues
with gone as (
    delete from taskforge.finished f using unnest($1::uuid[], $2::int[]) as g (job, queue)
    where f.queue = g.queue and f.job = g.job
    returning f.*
), history as (
    insert into taskforge.executions (job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at, output, error, reason)
    select job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at,
        result, error, reason
    from gone where epoch > 0
)
insert into taskforge.tally_deltas (project, queue, status, count) select project, queue, status, -count(*) from gone group by 1, 2, 3
