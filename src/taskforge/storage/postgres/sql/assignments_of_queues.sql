-- The assignments of live queues of these projects behind one, by queue and worker. $1 projects · $2
-- queues · $3 workers, or null for all · $4 behind this queue · $5 and this worker of it · $6 limit
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at, a.queue
from (
    select distinct number, id from taskforge.queues where id = any ($2::uuid[]) and project = any ($1::int[]) and deleted_at is null
) q
cross join lateral (
    select * from taskforge.assignments
    where assignments.queue = q.number and (assignments.queue, assignments.worker) > ($4, $5::uuid)
      and ($3::uuid[] is null or assignments.worker = any ($3::uuid[]))
    order by worker limit $6
) a
order by a.queue, a.worker limit $6
