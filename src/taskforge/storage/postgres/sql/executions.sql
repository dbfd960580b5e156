-- The executions of a job, oldest first: earlier ones, the one now running, and the last one of a
-- finished job. $1 job · $2 projects
select x.*, coalesce(a.id, b.id) as worker_id, coalesce(a.name, b.name) as worker_name
from (
    select e.epoch, e.attempt, e.status, e.worker, e.claimed_at, e.started_at, e.finished_at, null::timestamptz as heartbeat_at,
        null::timestamptz as timeout_at, e.output, e.error, e.reason
    from taskforge.executions e where e.job = $1 and e.project = any ($2::int[])
    union all
    select ('x' || right(r.fence::text, 6))::bit(24)::int, r.attempt,
        case when r.heartbeat_at is not null then 2 when r.started_at is not null then 1 else 0 end, r.worker, r.claimed_at, r.started_at, null,
        r.heartbeat_at, r.timeout_at, null, null, null
    from taskforge.running r where r.fence > $1 and r.fence <= taskforge.last_fence($1) and r.project = any ($2::int[])
    union all
    select f.epoch, f.attempt, f.status, f.worker, f.claimed_at, f.started_at, f.finished_at, null, null, f.result, f.error, f.reason
    from taskforge.jobs j join taskforge.finished f on f.queue = j.queue and f.job = j.id
    where j.id = $1 and j.project = any ($2::int[]) and f.epoch > 0
) x
left join taskforge.workers a on a.incarnation = x.worker
left join taskforge.former_workers b on b.incarnation = x.worker
order by x.epoch
