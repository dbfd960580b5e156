-- Failures that no group counts yet, the oldest first. $1 limit
select number, project, queue, job_type, failure, count, job, epoch, error_type, message, at
from taskforge.failure_deltas order by number limit $1
