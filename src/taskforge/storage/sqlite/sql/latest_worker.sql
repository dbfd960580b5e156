-- The newest incarnation of one worker, as workers.sql shows it. ?1 project · ?2 worker
select w.*, (select count(*) from running r where r.worker = w.incarnation) as active
from workers w
where w.id = ?2 and w.project = ?1
order by w.registered_at desc, w.incarnation desc
limit 1
