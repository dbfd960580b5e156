-- Jobs as readers see them. $1 ids · $2 projects
select n.*, n.payload is null as payload_erased, q.name as queue_name, q.id as queue_id, o.name as origin_name
from (select * from taskforge.jobs_now where id = any ($1::uuid[]) and project = any ($2::int[])) n
left join taskforge.queues q on q.number = n.queue
left join taskforge.queues o on o.number = n.origin_queue
