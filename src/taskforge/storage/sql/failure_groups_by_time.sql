-- Groups of failures of a project, the newest first. $1 project · $2 seen since · $3 job type, or null
-- · behind $4 last seen and $5 number · $6 limit
select number, project, failure, job_type, error_type, message, first_seen, last_seen, count,
    tally, job, epoch
from taskforge.failure_groups
where project = $1 and last_seen >= $2 and coalesce($3, job_type) = job_type and (last_seen, number) < ($4, $5)
order by last_seen desc, number desc limit $6
