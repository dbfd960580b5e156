-- The assignments of a project behind one, by queue and worker, those to deleted queues marked. $1
-- project · $2 behind this queue · $3 and this worker of it · $4 limit
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at, a.queue, q.deleted_at is null as is_live
from (
    select * from taskforge.assignments
    where project = $1 and (queue, worker) > ($2, $3::uuid) order by queue, worker limit $4
) a
cross join lateral (select id, deleted_at from taskforge.queues where queues.number = a.queue limit 1) q
order by a.queue, a.worker
