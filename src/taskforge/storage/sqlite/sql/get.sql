-- Jobs as readers see them, in the order asked. ?1 ids, one behind the other · ?2 a list as long
select n.*, n.payload is null as payload_erased, q.name as queue_name, q.id as queue_id, o.name as origin_name
from json_each(?2) i cross join jobs_now n on n.id = substr(?1, i.key * 16 + 1, 16)
left join queues q on q.number = n.queue
left join queues o on o.number = n.origin_queue
where n.status is not null
