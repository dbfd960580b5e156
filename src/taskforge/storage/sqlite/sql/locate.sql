-- Where a job stands, for a change, without what is large; `parked`: whom it waits for while its
-- arguments fit no worker that is there. ?1 job
select n.id, n.project, n.queue, n.job_type, n.priority, n.max_attempts, n.requires, n.unique_key, n.fairness_key, n.origin_queue, n.deadline, n.expires_at,
    n.buried_reason, n.buried_error, n.status, n.fence, n.attempt, n.budget, n.crashes, n.keyed, n.turn, n.due, n.cancel_requested,
    n.payload is null as payload_erased,
    (select w.skipped from waiting w where w.fence = n.fence) as parked,
    (select q.name from queues q where q.number = n.queue) as queue_name,
    (select q.name from queues q where q.number = n.origin_queue) as origin_name
from jobs_now n where n.id = ?1 and n.status is not null
