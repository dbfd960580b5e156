-- One assignment. $1 queue · $2 worker
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at
from taskforge.assignments a join taskforge.queues q on q.number = a.queue where a.queue = $1 and a.worker = $2
