-- Where a job stands, for a change; `parked`: whom it waits for while its arguments fit no worker
-- that is there. ?1 job
select *, (select w.skipped from waiting w where w.fence = jobs_now.fence) as parked,
    (select q.name from queues q where q.number = jobs_now.queue) as queue_name,
    (select q.name from queues q where q.number = jobs_now.origin_queue) as origin_name
from jobs_now where id = ?1 and status is not null
