-- The facts of jobs that an operator changes. $1 ids · $2 projects
select id, project, queue, job_type, priority, max_attempts, requires, unique_key, origin_queue, payload is null as erased
from taskforge.jobs where id = any ($1::uuid[]) and project = any ($2::int[])
