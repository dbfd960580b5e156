-- The assignments of workers to live queues of these projects behind one, by queue and worker. $1
-- projects · $2 workers · $3 behind this queue · $4 and this worker of it · $5 limit
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at, a.queue
from (select distinct id from unnest($2::uuid[]) as u (id)) w
cross join lateral (
    select s.*, x.id from taskforge.assignments s
    cross join lateral (select id, deleted_at from taskforge.queues where queues.number = s.queue limit 1) x
    where s.worker = w.id and s.project = any ($1::int[]) and (s.queue, s.worker) > ($3, $4::uuid) and x.deleted_at is null
    order by s.queue limit $5
) a
cross join lateral (select a.id) q
order by a.queue, a.worker limit $5
