-- Executions now running, oldest claim first; $2: only those past their timeout. $1 projects · $2 ·
-- $3 limit · $4 now (tests)
select r.fence, r.attempt, r.worker, r.claimed_at, r.started_at, r.heartbeat_at, r.timeout_at, null::timestamptz as finished_at,
    null::json as output, null::json as error, null::text as reason, w.id as worker_id, w.name as worker_name,
    case when r.heartbeat_at is not null then 2 when r.started_at is not null then 1 else 0 end as status
from taskforge.running r left join taskforge.workers w on w.incarnation = r.worker
where r.project = any ($1::int[]) and (not $2 or r.timeout_at <= coalesce($4::timestamptz, statement_timestamp()))
order by r.claimed_at, r.fence limit $3
