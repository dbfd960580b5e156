-- A finished job is to live again: its last execution joins the earlier ones, and it no longer
-- counts as finished.
-- $1 job · $2 queue
with gone as (
    delete from taskforge.finished where queue = $2 and job = $1 returning *
), history as (
    insert into taskforge.executions (job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at, output, error, reason)
    select job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at,
        result, error, reason
    from gone where epoch > 0
)
insert into taskforge.tally_deltas (project, queue, status, count) select project, queue, status, -1 from gone
