-- The facts of jobs that an operator changes. $1 ids · $2 projects
select j.id, j.project, j.queue, j.job_type, j.priority, j.max_attempts, j.requires, j.unique_key, j.fairness_key, j.origin_queue,
    j.payload is null as erased, (select name from taskforge.queues q where q.number = j.queue) as queue_name,
    (select name from taskforge.queues o where o.number = j.origin_queue) as origin_name
from taskforge.jobs j where j.id = any ($1::uuid[]) and project = any ($2::int[])
