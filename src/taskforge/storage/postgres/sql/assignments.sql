-- The assignments to live queues of these projects, by queue and by age. $1 projects
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at
from taskforge.assignments a join taskforge.queues q on q.number = a.queue
where a.project = any ($1::int[]) and q.deleted_at is null
order by q.name, q.id, a.created_at, a.worker
