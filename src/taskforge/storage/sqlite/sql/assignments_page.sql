-- The assignments of a project behind one, by queue and worker, those to deleted queues marked. ?1
-- project · ?2 behind this queue · ?3 and this worker of it · ?4 limit
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at, a.queue, q.deleted_at is null
from assignments a cross join queues q on q.number = a.queue
where a.project = ?1 and (a.queue, a.worker) > (?2, ?3)
order by a.queue, a.worker limit ?4
