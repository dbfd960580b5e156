-- The groups that are there of failures that are not counted yet. $1 up to this delta
select number, project, failure, job_type, error_type, message, first_seen, last_seen, count,
    tally, job, epoch
from taskforge.failure_groups g where exists (
    select 1 from taskforge.failure_deltas d where d.number <= $1 and d.project = g.project and d.failure = g.failure)
