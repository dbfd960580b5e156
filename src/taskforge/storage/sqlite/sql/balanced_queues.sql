-- The queues whose jobs are placed on workers, behind this one, each with where it goes on. ?1 queue ·
-- ?2 most
select q.number, q.project, p.position
from queues q left join dispatch_positions p on p.queue = q.number
where json_extract(q.settings, '$.load_balancing') is not null and q.deleted_at is null and q.number > ?1
order by q.number limit ?2
