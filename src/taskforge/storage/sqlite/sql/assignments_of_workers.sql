-- The assignments of workers to live queues of these projects behind one, by queue and worker. ?1
-- projects · ?2 workers, their ids one behind the other · ?3 positions of them · ?4 behind this queue
-- · ?5 and this worker of it · ?6 limit
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at, a.queue
from assignments a cross join queues q on q.number = a.queue
where a.worker in (select substr(?2, 16 * key + 1, 16) from json_each(?3)) and a.project in (select value from json_each(?1))
  and (a.queue, a.worker) > (?4, ?5) and q.deleted_at is null
order by a.queue, a.worker limit ?6
