-- Jobs as a list shows them: what is large is read only when it is asked for.
-- $1 ids · $2 projects · $3 whether with payloads · $4 whether with results
select n.*, q.name as queue_name, q.id as queue_id, o.name as origin_name
from (
select id, project, queue, job_type, priority, timeout_seconds, deadline, expires_at, tags, requires, unique_key, idempotency_key,
    fairness_key, extras, origin_queue, edited_at, status, lane, fence, epoch, attempt, budget, crashes, due, turn, worker, claimed_at,
    started_at, finished_at, error, reason, progress, message, cancel_requested, cancel_reason, misfit_at, heartbeat_at, last_ended_at,
    worker_id, worker_name, payload is null as payload_erased,
    case when $3::bool then payload end as payload, case when $4::bool then result end as result
from taskforge.jobs_now where id = any ($1::uuid[]) and project = any ($2::int[])
) n
left join taskforge.queues q on q.number = n.queue
left join taskforge.queues o on o.number = n.origin_queue
