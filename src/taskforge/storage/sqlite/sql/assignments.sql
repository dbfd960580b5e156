-- The assignments to live queues of these projects, by queue and by age. ?1 projects
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at
from assignments a join queues q on q.number = a.queue
where a.project in (select value from json_each(?1)) and q.deleted_at is null
order by q.name, q.id, a.created_at, a.worker
