-- Jobs as a list shows them, in the order asked: what is large is read only when it is asked for.
-- ?1 ids, one behind the other · ?2 a list as long · ?3 whether with payloads · ?4 whether with results
select n.id, n.project, n.queue, n.job_type, n.priority, n.timeout_seconds, n.deadline, n.expires_at, n.tags, n.requires, n.unique_key,
    n.idempotency_key, n.fairness_key, n.extras, n.origin_queue, n.edited_at, n.status, n.lane, n.fence, n.epoch, n.attempt, n.budget,
    n.crashes, n.due, n.turn, n.worker, n.claimed_at, n.started_at, n.finished_at, n.error, n.reason, n.progress, n.message,
    n.cancel_requested, n.cancel_reason, n.misfit_at, n.heartbeat_at, n.last_ended_at, n.worker_id, n.worker_name,
    n.payload is null as payload_erased,
    case when ?3 then n.payload end as payload, case when ?4 then n.result end as result,
    q.name as queue_name, q.id as queue_id, o.name as origin_name
from json_each(?2) i cross join jobs_now n on n.id = substr(?1, i.key * 16 + 1, 16)
left join queues q on q.number = n.queue
left join queues o on o.number = n.origin_queue
where n.status is not null
