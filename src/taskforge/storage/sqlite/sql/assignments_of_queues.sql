-- The assignments of live queues of these projects behind one, by queue and worker. ?1 projects · ?2
-- queues, their ids one behind the other · ?3 positions of them · ?4 workers likewise · ?5 positions
-- of them, or null for all · ?6 behind this queue · ?7 and this worker of it · ?8 limit
select q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at, a.queue
from queues q cross join assignments a on a.queue = q.number
where q.id in (select substr(?2, 16 * key + 1, 16) from json_each(?3)) and q.project in (select value from json_each(?1))
  and q.deleted_at is null and (a.queue, a.worker) > (?6, ?7)
  and (?5 is null or a.worker in (select substr(?4, 16 * key + 1, 16) from json_each(?5)))
order by a.queue, a.worker limit ?8
