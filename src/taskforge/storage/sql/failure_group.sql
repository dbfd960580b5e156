-- A group of failures. $1 project · $2 its id
select number, project, failure, job_type, error_type, message, first_seen, last_seen, count,
    tally, job, epoch
from taskforge.failure_groups where project = $1 and failure = $2
